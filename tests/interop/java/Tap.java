import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.IOException;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.function.Predicate;
import org.apache.rocketmq.remoting.protocol.RemotingCommand;

/**
 * A relay between a program and the name server that notes the requests and their answers. It
 * passes frames on unchanged, and a closed connection at once.
 */
final class Tap {
    private static final int FRAME_BYTES_MAX = 64 << 20;

    private final ServerSocket listener;
    private final String server;
    private final List<Request> requests = new ArrayList<>();
    private int connections;

    /**
     * One request of the program.
     *
     * @param at when it came, by {@link System#nanoTime}
     * @param connection counts the connections of the program, from 1
     * @param answer null before it is answered, and always null if it is one-way
     */
    record Request(long at, int connection, RemotingCommand command, RemotingCommand answer) {
        int code() {
            return command.getCode();
        }

        /** A header field, or "". */
        String field(String name) {
            Map<String, String> fields = command.getExtFields();
            return fields == null ? "" : fields.getOrDefault(name, "");
        }

        boolean answered(int code) {
            return answer != null && answer.getCode() == code;
        }

        @Override public String toString() {
            return code() + (answer == null ? "" : " -> " + answer.getCode());
        }
    }

    Tap(int port, String server) throws IOException {
        this.listener = new ServerSocket(port, 50, InetAddress.getLoopbackAddress());
        this.server = server;
        start("accept", this::accept);
    }

    String address() {
        return "127.0.0.1:" + listener.getLocalPort();
    }

    /** What was noted so far that is so. */
    List<Request> requests(Predicate<Request> wanted) {
        synchronized (requests) {
            return requests.stream().filter(wanted).toList();
        }
    }

    /** The requests of one code so far. */
    List<Request> requests(int code) {
        return requests(request -> request.code() == code);
    }

    /** Forgets what it noted. */
    void clear() {
        synchronized (requests) {
            requests.clear();
        }
    }

    private static void start(String name, Runnable task) {
        Thread thread = new Thread(task, "tap " + name);
        thread.setDaemon(true);
        thread.start();
    }

    private void accept() {
        for (;;) {
            try {
                Socket program = listener.accept();
                int number = ++connections;
                start("connection " + number, () -> relay(program, number));
            } catch (IOException e) {
                return; // closed
            }
        }
    }

    private void relay(Socket program, int number) {
        int colon = server.lastIndexOf(':');
        try (program; Socket target = new Socket(server.substring(0, colon),
                Integer.parseInt(server.substring(colon + 1)))) {
            // The place of each unanswered request in the list, by its opaque.
            Map<Integer, Request> open = new ConcurrentHashMap<>();
            start("answers " + number, () -> {
                pass(target, program, answer -> answered(open, answer));
                close(program); // ends the other direction, too
            });
            pass(program, target, request -> asked(open, number, request));
        } catch (IOException e) {
            // No server there: the program sees its connection closed.
        }
    }

    private void asked(Map<Integer, Request> open, int number, RemotingCommand command) {
        Request request = new Request(System.nanoTime(), number, command, null);
        if (!command.isOnewayRPC()) open.put(command.getOpaque(), request);
        synchronized (requests) {
            requests.add(request);
        }
    }

    private void answered(Map<Integer, Request> open, RemotingCommand answer) {
        Request request = open.remove(answer.getOpaque());
        if (request == null) return;
        synchronized (requests) {
            // By identity: after clear() it is not there.
            for (int i = 0; i < requests.size(); i++) {
                if (requests.get(i) != request) continue;
                requests.set(i, new Request(request.at, request.connection, request.command,
                    answer));
            }
        }
    }

    /** What is done with each frame before it is passed on. */
    private interface Note {
        void note(RemotingCommand command);
    }

    private static void pass(Socket from, Socket to, Note note) {
        try {
            DataInputStream in = new DataInputStream(from.getInputStream());
            DataOutputStream out = new DataOutputStream(to.getOutputStream());
            for (;;) {
                int length = in.readInt();
                if (length < 0 || length > FRAME_BYTES_MAX) throw new IOException("not a frame");
                byte[] frame = in.readNBytes(length);
                if (frame.length < length) return;
                note.note(RemotingCommand.decode(ByteBuffer.wrap(frame)));
                out.writeInt(length);
                out.write(frame);
                out.flush();
            }
        } catch (Exception e) {
            // The connection ends with the first of its two ends, or with what is no frame.
        }
    }

    private static void close(Socket socket) {
        try {
            socket.close();
        } catch (IOException e) {
            // It is of no use any more in any case.
        }
    }
}
