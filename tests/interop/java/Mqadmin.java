import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;

/** The real mqadmin, kept in one JVM ({@link MqadminHost}) for all commands of a run. */
final class Mqadmin {
    private static final int ANSWER_SECONDS = 60;

    private final Setup setup;
    private final String name;
    private final JarSet set;
    private final String[] jvmOptions;
    private final ExecutorService reader = Executors.newSingleThreadExecutor(task -> {
        Thread thread = new Thread(task, "mqadmin answers");
        thread.setDaemon(true);
        return thread;
    });
    private Program program;
    private DataOutputStream commands;
    private DataInputStream answers;
    private volatile Answer last = new Answer("(none)", "");

    Mqadmin(Setup setup, String name, JarSet set, String... jvmOptions) {
        this.setup = setup;
        this.name = name;
        this.set = set;
        this.jvmOptions = jvmOptions;
    }

    void start() throws IOException {
        var folder = setup.runFolder.resolve(name);
        // Its output is part of the answers, so its logging is off.
        List<String> command = setup.jvm(set, folder, 256, jvmOptions);
        command.add(1, "-Dinterop.log=OFF");
        command.add("MqadminHost");
        program = Program.startPiped(name, folder, Setup.environment(folder), command);
        commands = new DataOutputStream(program.process.getOutputStream());
        answers = new DataInputStream(program.process.getInputStream());
    }

    /** Runs one command against a name server, and returns all that it printed. */
    synchronized Answer run(String nameServer, String... arguments) throws Exception {
        String shown = "mqadmin " + String.join(" ", arguments) + " -n " + nameServer;
        last = new Answer(shown, "(no answer)");
        if (!program.alive()) start(); // after the end of its time, for the next step
        var pending = reader.submit(() -> {
            commands.writeInt(arguments.length + 2);
            for (String argument : arguments) commands.writeUTF(argument);
            commands.writeUTF("-n");
            commands.writeUTF(nameServer);
            commands.flush();
            return new String(answers.readNBytes(answers.readInt()), StandardCharsets.UTF_8);
        });
        try {
            last = new Answer(shown, pending.get(ANSWER_SECONDS, TimeUnit.SECONDS));
            return last;
        } catch (TimeoutException e) {
            program.kill();
            throw new Mismatch(shown, "an answer within " + ANSWER_SECONDS + " s", "none");
        } catch (ExecutionException e) {
            throw new Mismatch(shown, "an answer", "mqadmin ended: " + e.getCause());
        }
    }

    /** The latest command and its output, for the report of a failure. */
    Answer last() {
        return last;
    }

    Program program() {
        return program;
    }
}
