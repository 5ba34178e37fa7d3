import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;

/** A name server: guidepost, the Java NameServer, or one that is already there. */
final class NameServer {
    private static final int START_SECONDS = 120;
    private static final int STOP_SECONDS = 20;

    private final Setup setup;
    private final String name;
    private final Path folder;
    private final int port;
    /** Further settings, as {@code key=value}. */
    private final List<String> settings;
    private Program program;

    NameServer(Setup setup, String name, List<String> settings) {
        this.setup = setup;
        this.name = name;
        this.settings = settings;
        this.folder = setup.runFolder.resolve(name);
        this.port = setup.kind == Setup.Kind.GIVEN ? 0 : setup.freePorts();
    }

    String address() {
        return setup.kind == Setup.Kind.GIVEN ? setup.server : "127.0.0.1:" + port;
    }

    int port() {
        return Integer.parseInt(address().substring(address().lastIndexOf(':') + 1));
    }

    /** Starts it on its port and folder, the same ones each time, and waits until it answers. */
    void start() throws Exception {
        if (setup.kind == Setup.Kind.GIVEN) return;
        program = Program.start(name, folder, Setup.environment(folder), command());
        Expect.within(START_SECONDS, name + " on port " + port, "accepting connections",
            this::state, "accepting connections"::equals);
    }

    private String state() {
        if (!program.alive()) {
            throw new Mismatch(name + " on port " + port, "accepting connections",
                "ended with exit code " + program.process.exitValue());
        }
        return Setup.accepts(port) ? "accepting connections" : "running, port closed";
    }

    private List<String> command() throws IOException {
        Files.createDirectories(folder);
        Path file = folder.resolve("namesrv.properties");
        if (Files.notExists(file)) {
            List<String> lines = new ArrayList<>(List.of(
                "listenPort=" + port,
                "bindAddress=127.0.0.1",
                "kvConfigPath=" + folder.resolve("kvConfig.json")));
            lines.addAll(settings);
            Files.write(file, lines);
        }
        List<String> command = new ArrayList<>();
        if (setup.kind == Setup.Kind.JAVA) {
            // The Java server reads some settings, those of TLS, from nowhere else.
            String[] options = settings.stream().map(line -> "-D" + line).toArray(String[]::new);
            command.addAll(setup.jvm(JarSet.V5, folder, 256, options));
            command.add("org.apache.rocketmq.namesrv.NamesrvStartup");
        } else {
            command.add(setup.server);
        }
        command.addAll(List.of("-c", file.toString()));
        return command;
    }

    /** Sends TERM and returns the exit code. */
    int stop() throws InterruptedException {
        program.terminate();
        return program.awaitEnd(STOP_SECONDS);
    }

    /**
     * Ends it as a power failure would: no signal handler runs. Waits for its port, too, which the
     * kernel closes some milliseconds after the process is gone where that had an io_uring: who
     * starts it again would else take the old listener for the new one.
     */
    void kill() throws Exception {
        program.kill();
        Expect.within(STOP_SECONDS, name + " killed, on port " + port, "port closed",
            () -> Setup.accepts(port) ? "accepting connections" : "port closed",
            "port closed"::equals);
    }

    /** Its program, or null when it is not ours or was not started. */
    Program program() {
        return program;
    }
}
