import java.io.ByteArrayOutputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.EOFException;
import java.io.FileDescriptor;
import java.io.FileOutputStream;
import java.io.PrintStream;
import java.lang.reflect.Field;
import java.util.List;
import java.util.concurrent.locks.LockSupport;
import org.apache.rocketmq.tools.command.MQAdminStartup;

/**
 * Runs the commands that {@link Mqadmin} sends, each by mqadmin's own main method, in one JVM.
 *
 * <p>One JVM for each command would cost seconds a command. In: the number of arguments, then
 * each. Out: the number of bytes of what the command printed, then those. Ends with its input.
 */
final class MqadminHost {
    private static final long LOOK_NANOS = 10_000_000;

    public static void main(String[] none) throws Exception {
        hurryShutdowns(Thread.currentThread());
        DataInputStream commands = new DataInputStream(System.in);
        DataOutputStream answers =
            new DataOutputStream(new FileOutputStream(FileDescriptor.out));
        for (;;) {
            String[] arguments;
            try {
                arguments = new String[commands.readInt()];
            } catch (EOFException e) {
                break;
            }
            for (int i = 0; i < arguments.length; i++) arguments[i] = commands.readUTF();
            byte[] printed = run(arguments);
            answers.writeInt(printed.length);
            answers.write(printed);
            answers.flush();
        }
        Runtime.getRuntime().halt(0); // threads of RocketMQ clients would keep the JVM
    }

    private static byte[] run(String[] arguments) {
        ByteArrayOutputStream printed = new ByteArrayOutputStream();
        PrintStream both = new PrintStream(printed, true);
        System.setOut(both);
        System.setErr(both);
        try {
            forgetCommands();
            MQAdminStartup.main0(arguments, null);
        } catch (ReflectiveOperationException | RuntimeException | Error e) {
            e.printStackTrace(both);
        }
        return printed.toByteArray();
    }

    /** Some commands keep a client that they have closed: has mqadmin make new ones. */
    private static void forgetCommands() throws IllegalAccessException {
        // The one list of the class; its name is not that of 4.9.7 in 5.5.0.
        for (Field field : MQAdminStartup.class.getDeclaredFields()) {
            if (field.getType() != List.class) continue;
            field.setAccessible(true);
            ((List<?>) field.get(null)).clear();
        }
    }

    /**
     * One close of a client in five waits 3 s for a thread that looks at a queue only that often.
     * Wakes that thread while {@code main} waits for it.
     */
    private static void hurryShutdowns(Thread main) {
        Thread watch = new Thread(() -> {
            for (;;) {
                LockSupport.parkNanos(LOOK_NANOS);
                for (StackTraceElement call : main.getStackTrace()) {
                    if (call.getMethodName().equals("shutdown")
                            && call.getClassName().endsWith(".ServiceThread")) wakeEventThreads();
                }
            }
        }, "hurry");
        watch.setDaemon(true);
        watch.start();
    }

    private static void wakeEventThreads() {
        Thread.getAllStackTraces().keySet().stream()
            .filter(thread -> thread.getName().contains("NettyEventExecutor"))
            .forEach(Thread::interrupt);
    }
}
