import java.io.IOException;
import java.util.List;

/** What makes and runs the client programs of one language, in {@code tests/interop/<folder>}. */
enum Tool {
    GO("go", "Go, 1.19 or newer (golang-go)", List.of("go", "version")),
    NODE("node", "Node.js, 18 or newer, with npm (nodejs, npm)", List.of("node", "--version"),
        List.of("npm", "--version")),
    PYTHON("python", "Python, 3.10 or newer, with its module venv (python3-venv)",
        List.of("python3", "-c", "import ensurepip, sys; sys.exit(sys.version_info < (3, 10))")),
    RUST("rust", "Rust by rustup", List.of("cargo", "--version"));

    /** The folder of its programs, here and below {@code target/interop/clients}. */
    final String folder;
    /** What to install where it is missing. */
    final String cure;
    /** Commands that succeed where it is not. */
    private final List<List<String>> probes;

    @SafeVarargs
    Tool(String folder, String cure, List<String>... probes) {
        this.folder = folder;
        this.cure = cure;
        this.probes = List.of(probes);
    }

    /** Why it cannot be used on this machine, or null. */
    String missing() {
        boolean there = probes.stream().allMatch(Tool::succeeds);
        return there ? null : folder + " is missing: install " + cure;
    }

    private static boolean succeeds(List<String> command) {
        try {
            return new ProcessBuilder(command)
                .redirectOutput(ProcessBuilder.Redirect.DISCARD)
                .redirectError(ProcessBuilder.Redirect.DISCARD)
                .start().waitFor() == 0;
        } catch (IOException e) {
            return false; // no such program
        } catch (InterruptedException e) {
            throw new IllegalStateException(e);
        }
    }
}
