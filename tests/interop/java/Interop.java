import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.Locale;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.stream.Stream;

/**
 * Runs the steps and reports them. Started by {@code tests/interop/run}, which knows the options
 * and gives the places as system properties.
 *
 * <p>Arguments: names of steps, or none for all; or {@code --list}.
 */
final class Interop {
    private static final int TAIL_LINES = 25;

    private final Setup setup;
    /** The names given; none means all steps. */
    private final String[] chosen;
    private final Fleet fleet;
    private volatile String current = "start";
    private int passed;
    private int failed;

    private Interop(Setup setup, String[] chosen) {
        this.setup = setup;
        this.chosen = chosen;
        this.fleet = new Fleet(setup);
    }

    public static void main(String[] arguments) throws Exception {
        if (arguments.length == 1 && arguments[0].equals("--list")) {
            Steps.ALL.forEach(step -> System.out.printf("%-22s %s%s%n", step.name(), step.claim(),
                step.differs() == null ? "" : " (differs: " + step.differs() + ")"));
            return;
        }
        // Runs on Ctrl-C, too.
        Runtime.getRuntime().addShutdownHook(new Thread(Program::endAll, "end all"));
        Path folder = Path.of(System.getProperty("interop.folder"), "run");
        deleteAll(folder);
        Setup setup = new Setup(System.getProperty("interop.server"), folder,
            Path.of(System.getProperty("interop.logback")), Integer.getInteger("interop.port"));
        Interop run = new Interop(setup, arguments);
        List<Step> steps = run.steps();
        CountDownLatch done = new CountDownLatch(1);
        run.limit(Integer.getInteger("interop.limit"), done);
        boolean good = run.all(steps);
        done.countDown();
        System.exit(good ? 0 : 1);
    }

    private static void deleteAll(Path folder) throws Exception {
        if (Files.notExists(folder)) return;
        List<Path> found;
        try (Stream<Path> walk = Files.walk(folder)) {
            found = walk.sorted(Comparator.reverseOrder()).toList();
        }
        for (Path path : found) Files.delete(path);
    }

    private List<Step> steps() {
        List<Step> steps = new ArrayList<>();
        for (String name : chosen) {
            steps.add(Steps.ALL.stream().filter(step -> step.name().equals(name)).findFirst()
                .orElseThrow(() -> refused("there is no step " + name + "; --list shows them")));
        }
        if (chosen.length == 0) steps.addAll(Steps.ALL);
        for (Step step : List.copyOf(steps)) {
            if (step.possibleWith(setup.kind)) continue;
            String why = step.name() + " starts and stops servers, and " + setup.server
                + " is not ours to stop";
            if (chosen.length > 0) throw refused(why);
            System.out.println("not run: " + why);
            steps.remove(step);
        }
        return steps;
    }

    private static RuntimeException refused(String why) {
        System.err.println("tests/interop/run: " + why);
        System.exit(2);
        return new IllegalStateException(why);
    }

    /** Ends the run as failed when it takes too long, whatever it waits for. */
    private void limit(int seconds, CountDownLatch done) {
        long start = System.nanoTime();
        Thread watch = new Thread(() -> {
            try {
                if (done.await(seconds, TimeUnit.SECONDS)) return;
            } catch (InterruptedException e) {
                return;
            }
            report(current, start, new Mismatch("the time of the whole run",
                "at most " + seconds + " s", "still in step " + current));
            Program.endAll();
            Runtime.getRuntime().halt(1);
        }, "limit");
        watch.setDaemon(true);
        watch.start();
    }

    private boolean all(List<Step> steps) {
        long start = System.nanoTime();
        System.out.printf("server: %s, steps: %d, logs: %s/*/log%n", setup.server, steps.size(),
            setup.runFolder);
        if (start(steps)) steps.forEach(this::one);
        System.out.printf(Locale.ROOT, "%d passed, %d failed in %.1f s%n", passed, failed,
            secondsSince(start));
        return failed == 0;
    }

    /** Starts what these steps need, all at a time; the steps wait for their brokers. */
    private boolean start(List<Step> steps) {
        List<String> brokers = steps.stream().filter(step -> step.passesWith(setup.kind))
            .flatMap(step -> step.brokers().stream()).distinct().toList();
        long start = System.nanoTime();
        try {
            fleet.start(brokers);
        } catch (Exception e) {
            failed++;
            report("start", start, e);
            return false;
        }
        line("ready", start, "server, mqadmin", "");
        return true;
    }

    private void one(Step step) {
        long start = System.nanoTime();
        current = step.name();
        fleet.beginStep();
        boolean shouldPass = step.passesWith(setup.kind);
        try {
            List<String> awaited = fleet.use(step.brokers());
            if (!awaited.isEmpty()) {
                line("ready", start, String.join(", ", awaited), "");
                start = System.nanoTime();
            }
            String seen = step.body().run(fleet);
            if (shouldPass) {
                passed++;
                line("ok", start, step.name(), seen);
            } else {
                failed++;
                report(step.name(), start, new Mismatch("the step as marked",
                    "to fail with Java: " + step.differs(), "passed: " + seen));
            }
        } catch (Mismatch e) {
            if (shouldPass) {
                failed++;
                report(step.name(), start, e);
            } else {
                passed++;
                line("differs", start, step.name(), step.differs());
            }
        } catch (Exception e) {
            failed++;
            report(step.name(), start, e);
        }
    }

    private static void line(String result, long start, String name, String text) {
        System.out.println(String.format(Locale.ROOT, "%-7s %5.1f s  %-22s %s", result,
            secondsSince(start), name, text).stripTrailing());
    }

    private static double secondsSince(long start) {
        return (System.nanoTime() - start) / 1e9;
    }

    private void report(String name, long start, Exception why) {
        line("FAILED", start, name, "");
        if (why instanceof Mismatch mismatch) {
            System.out.println("  of:       " + mismatch.what);
            System.out.println("  expected: " + mismatch.expected);
            System.out.println("  got:      " + mismatch.got);
        } else {
            why.printStackTrace(System.out);
        }
        Answer last = fleet.lastAnswer();
        System.out.println("  last command: " + last.command());
        last.text().lines().limit(TAIL_LINES).forEach(text -> System.out.println("    " + text));
        for (Program program : fleet.programs()) {
            System.out.println("  end of " + program.log
                + (program.alive() ? "" : " (exit code " + program.process.exitValue() + ")"));
            program.tail(TAIL_LINES).forEach(text -> System.out.println("    " + text));
        }
        String again = System.getProperty("interop.command") + " "
            + (name.equals("start") ? String.join(" ", chosen) : name);
        System.out.println("  again: " + again.strip());
    }
}
