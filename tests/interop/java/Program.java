import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;

/**
 * One child process with a folder and a log of its own.
 *
 * <p>Every process this suite starts is started here, so that {@link #endAll} can end exactly
 * those, whatever way the run ends.
 */
final class Program {
    private static final List<Program> STARTED = new ArrayList<>();
    private static boolean closing;

    final String name;
    final Path log;
    final Process process;

    private Program(String name, Path log, Process process) {
        this.name = name;
        this.log = log;
        this.process = process;
    }

    /** Starts a program whose output goes to {@code folder/log}. */
    static Program start(String name, Path folder, Map<String, String> environment,
            List<String> command) throws IOException {
        return start(name, folder, environment, command, false);
    }

    /** Like {@link #start}, but standard input and output are pipes to this process. */
    static Program startPiped(String name, Path folder, Map<String, String> environment,
            List<String> command) throws IOException {
        return start(name, folder, environment, command, true);
    }

    private static Program start(String name, Path folder, Map<String, String> environment,
            List<String> command, boolean piped) throws IOException {
        Files.createDirectories(folder);
        Path log = folder.resolve("log");
        ProcessBuilder builder = new ProcessBuilder(command).directory(folder.toFile());
        ProcessBuilder.Redirect toLog = ProcessBuilder.Redirect.appendTo(log.toFile());
        builder.redirectError(toLog);
        if (!piped) {
            builder.redirectInput(ProcessBuilder.Redirect.from(Path.of("/dev/null").toFile()));
            builder.redirectOutput(toLog);
        }
        // The caller's own RocketMQ settings must not reach the programs under test.
        Map<String, String> variables = builder.environment();
        variables.keySet().removeIf(k -> k.startsWith("ROCKETMQ_") || k.equals("NAMESRV_ADDR"));
        variables.putAll(environment);
        synchronized (STARTED) {
            if (closing) throw new IOException("not starting " + name + ": the run is ending");
            Program program = new Program(name, log, builder.start());
            STARTED.add(program);
            return program;
        }
    }

    boolean alive() {
        return process.isAlive();
    }

    /** Sends TERM and does not wait. */
    void terminate() {
        process.toHandle().destroy();
    }

    /** Sends STOP: it stands still, with its connections open, until {@link #thaw}. */
    void freeze() throws Exception {
        signal("STOP");
    }

    /** Sends CONT. */
    void thaw() throws Exception {
        signal("CONT");
    }

    private void signal(String signal) throws Exception {
        int exit = new ProcessBuilder("kill", "-" + signal, Long.toString(process.pid()))
            .inheritIO().start().waitFor();
        Expect.equal("the exit code of kill -" + signal + " " + name, 0, exit);
    }

    /** Sends KILL and waits for the end. */
    void kill() {
        process.destroyForcibly();
        process.onExit().join();
    }

    /** Waits for the end and returns the exit code (128 + n after signal n). */
    int awaitEnd(int seconds) throws InterruptedException {
        if (!process.waitFor(seconds, TimeUnit.SECONDS)) {
            throw new Mismatch("the end of " + name, "ended within " + seconds + " s",
                "still running");
        }
        return process.exitValue();
    }

    /** The lines of the log that contain a text. */
    List<String> logged(String text) {
        return log().stream().filter(line -> line.contains(text)).toList();
    }

    private List<String> log() {
        try {
            return new String(Files.readAllBytes(log)).lines().toList();
        } catch (IOException e) {
            return List.of("(no log: " + e.getMessage() + ")");
        }
    }

    /** The last lines of the log. */
    List<String> tail(int count) {
        List<String> lines = log();
        return lines.subList(Math.max(0, lines.size() - count), lines.size());
    }

    /** Kills whatever still runs of what was started, and lets nothing start any more. */
    static void endAll() {
        synchronized (STARTED) {
            closing = true;
            STARTED.forEach(program -> program.process.destroyForcibly());
            STARTED.forEach(program -> program.process.onExit().join());
        }
    }
}
