import java.io.BufferedInputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.IOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.rocketmq.remoting.exception.RemotingCommandException;
import org.apache.rocketmq.remoting.protocol.RemotingCommand;

/**
 * Passes connections on to a name server, byte for byte, and notes which requests were made over
 * them and how they were answered.
 */
final class Relay implements AutoCloseable {
    private static final int FRAME_BYTES_MAX = 16 << 20;
    private static final int NO_ANSWER = -1;

    private final InetSocketAddress target;
    private final ServerSocket listener;
    private final List<Exchange> exchanges = new ArrayList<>();

    /** A request and the code of its answer; both in the order in which requests came. */
    static final class Exchange {
        final int request;
        private volatile int answer = NO_ANSWER;

        private Exchange(int request) {
            this.request = request;
        }

        /** The request's code, and that of the answer unless that is 0. */
        @Override public String toString() {
            return switch (answer) {
                case 0 -> Integer.toString(request);
                case NO_ANSWER -> request + "=none";
                default -> request + "=" + answer;
            };
        }
    }

    /** One frame, or the end of the connection (null). */
    private interface Note {
        void of(RemotingCommand command);
    }

    private Relay(ServerSocket listener, InetSocketAddress target) {
        this.listener = listener;
        this.target = target;
    }

    /** Starts a relay on a free port. */
    static Relay to(NameServer server) throws IOException {
        InetAddress loopback = InetAddress.getByName("127.0.0.1");
        Relay relay = new Relay(new ServerSocket(0, 50, loopback),
            new InetSocketAddress(loopback, server.port()));
        relay.inBackground(relay::accept);
        return relay;
    }

    String address() {
        return "127.0.0.1:" + listener.getLocalPort();
    }

    /** The exchanges since the last call. */
    List<Exchange> take() {
        synchronized (exchanges) {
            List<Exchange> taken = List.copyOf(exchanges);
            exchanges.clear();
            return taken;
        }
    }

    /** Accepts nobody any more; the connections end with their peers. */
    @Override public void close() throws IOException {
        listener.close();
    }

    private interface Task {
        void run() throws IOException;
    }

    private void inBackground(Task task) {
        Thread thread = new Thread(() -> {
            try {
                task.run();
            } catch (IOException e) {
                // A peer has gone, or the relay was closed; whoever needs it will notice.
            }
        }, "relay");
        thread.setDaemon(true);
        thread.start();
    }

    private void accept() throws IOException {
        for (;;) {
            Socket client = listener.accept();
            Socket server = new Socket();
            server.connect(target);
            Map<Integer, Exchange> open = new ConcurrentHashMap<>();
            inBackground(() -> pass(client, server, request -> {
                Exchange exchange = new Exchange(request.getCode());
                if (!request.isOnewayRPC()) open.put(request.getOpaque(), exchange);
                synchronized (exchanges) {
                    exchanges.add(exchange);
                }
            }));
            inBackground(() -> pass(server, client, answer -> {
                Exchange exchange = open.remove(answer.getOpaque());
                if (exchange != null) exchange.answer = answer.getCode();
            }));
        }
    }

    /** Passes frames on until one side ends; a frame is noted before it is passed on. */
    private static void pass(Socket from, Socket to, Note note) throws IOException {
        try (from; to) {
            var in = new DataInputStream(new BufferedInputStream(from.getInputStream()));
            var out = new DataOutputStream(to.getOutputStream());
            for (;;) {
                int size = in.readInt();
                if (size < 0 || size > FRAME_BYTES_MAX) throw new IOException("size " + size);
                ByteBuffer frame = ByteBuffer.allocate(Integer.BYTES + size).putInt(size);
                in.readFully(frame.array(), Integer.BYTES, size);
                note.of(RemotingCommand.decode(
                    ByteBuffer.wrap(frame.array(), Integer.BYTES, size)));
                out.write(frame.array());
            }
        } catch (RemotingCommandException e) {
            throw new IOException(e);
        }
    }
}
