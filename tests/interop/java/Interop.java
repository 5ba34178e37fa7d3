import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Comparator;
import java.util.HashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.stream.Stream;

/**
 * Runs the steps and reports them. Started by {@code tests/interop/run}, which knows the options
 * and gives the places as system properties.
 *
 * <p>Arguments: names of steps and parts, or none for all; or {@code --list}; or {@code --needs}
 * and names, which tells the jars that those need besides 5.5.0, and the tools.
 */
final class Interop {
    private static final List<Part> PARTS = List.of(
        new Part("core", "brokers, mqadmin and client around one server, which restarts",
            CoreSteps.ALL),
        // These share the brokers of core.
        new Part("clients", "clients of other releases and languages", ClientSteps.ALL),
        new Part("grpc", "clients that speak gRPC, through the proxy", GrpcSteps.ALL),
        new Part("registration", "how brokers of 4.9.7 and 5.5.0 register, by their settings",
            RegistrationSteps.ALL),
        new Part("groups", "masters and slaves, controllers, containers", GroupSteps.ALL),
        new Part("static-topics", "topics whose queues are numbered across brokers",
            StaticTopicSteps.ALL),
        new Part("sweep", "the commands of mqadmin, compared with the Java server",
            SweepSteps.ALL));
    private static final int TAIL_LINES = 25;

    private final Setup setup;
    /** The names given; none means all steps. */
    private final String[] chosen;
    private final Mqadmin mqadmin;
    /** Those that are started. */
    private final Map<Fleet.Plan, Fleet> fleets = new HashMap<>();
    private volatile String current = "start";
    private int passed;
    private int failed;

    private Interop(Setup setup, String[] chosen) {
        this.setup = setup;
        this.chosen = chosen;
        this.mqadmin = new Mqadmin(setup, "mqadmin", JarSet.V5);
    }

    public static void main(String[] arguments) throws Exception {
        if (arguments.length == 1 && arguments[0].equals("--list")) {
            PARTS.forEach(Interop::list);
            return;
        }
        if (arguments.length > 0 && arguments[0].equals("--needs")) {
            needs(Arrays.copyOfRange(arguments, 1, arguments.length));
            return;
        }
        // Runs on Ctrl-C, too.
        Runtime.getRuntime().addShutdownHook(new Thread(Program::endAll, "end all"));
        Setup setup = new Setup(System.getProperty("interop.server"),
            Path.of(System.getProperty("interop.folder")),
            Path.of(System.getProperty("interop.sources")), Integer.getInteger("interop.port"));
        deleteAll(setup.runFolder);
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

    private static void list(Part part) {
        System.out.printf("%s: %s%n", part.name(), part.claim());
        for (Step step : part.steps()) {
            System.out.printf("  %-22s %s%s%s%n", step.name(), step.claim(),
                step.slow() == null ? "" : " (only when named: " + step.slow() + ")",
                step.differs() == null ? "" : " (Java: " + step.differs().reason() + ")");
        }
        System.out.println();
    }

    /** Prints what {@code tests/interop/run} has to prepare for these steps, a word a line. */
    private static void needs(String[] names) {
        List<Step> steps = chosen(names);
        steps.stream().flatMap(step -> step.sets().stream()).distinct()
            .forEach(set -> System.out.println("set:" + set.folder));
        for (Tool tool : Tool.values()) {
            List<Step> users = steps.stream().filter(s -> s.tools().contains(tool)).toList();
            if (users.isEmpty()) continue;
            String missing = tool.missing();
            if (missing == null) {
                System.out.println("tool:" + tool.folder);
                continue;
            }
            boolean named = users.stream().anyMatch(s -> Arrays.asList(names).contains(s.name()));
            if (named || "true".equals(System.getenv("CI"))) throw refused(missing);
        }
    }

    /** The steps of these names: steps or parts; without names all that are not slow. */
    private static List<Step> chosen(String[] names) {
        Set<Step> steps = new LinkedHashSet<>();
        for (Part part : PARTS) {
            boolean wanted = names.length == 0 || Arrays.asList(names).contains(part.name());
            if (wanted) part.steps().stream().filter(s -> s.slow() == null).forEach(steps::add);
        }
        for (String name : names) {
            if (PARTS.stream().anyMatch(part -> part.name().equals(name))) continue;
            steps.add(PARTS.stream().flatMap(part -> part.steps().stream())
                .filter(step -> step.name().equals(name)).findFirst()
                .orElseThrow(() -> refused("no step or part is called " + name
                    + "; --list shows them")));
        }
        return List.copyOf(steps);
    }

    private List<Step> steps() {
        List<Step> steps = new ArrayList<>(chosen(chosen));
        for (Step step : List.copyOf(steps)) {
            String missing = step.tools().stream().map(Tool::missing).filter(m -> m != null)
                .findFirst().orElse(null);
            if (missing != null) {
                System.out.println("not run: " + step.name() + ", because " + missing);
                steps.remove(step);
            }
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
            line("FAILED", start, current, "");
            explain(new Mismatch("the time of the whole run",
                "at most " + seconds + " s", "still in step " + current));
            Program.endAll();
            Runtime.getRuntime().halt(1);
        }, "limit");
        watch.setDaemon(true);
        watch.start();
    }

    private boolean all(List<Step> steps) throws Exception {
        long start = System.nanoTime();
        System.out.printf("server: %s, steps: %d, logs: %s/*/log%n", setup.server, steps.size(),
            setup.runFolder);
        mqadmin.start();
        for (int i = 0; i < steps.size(); i++) {
            List<Step> rest = steps.subList(i, steps.size());
            Fleet fleet = started(rest);
            if (fleet == null) continue;
            one(steps.get(i), fleet);
            endUnused(rest.subList(1, rest.size()));
        }
        System.out.printf(Locale.ROOT, "%d passed, %d failed in %.1f s%n", passed, failed,
            secondsSince(start));
        return failed == 0;
    }

    /** The brokers of a plan that these steps need. */
    private static List<String> needed(Fleet.Plan plan, List<Step> steps) {
        return steps.stream().filter(step -> step.plan().equals(plan))
            .flatMap(step -> step.brokers().stream()).distinct().toList();
    }

    /**
     * The fleet of the first of these steps. If it has to be started, all brokers that any of the
     * steps needs of it are, at a time; the steps wait for theirs. Null if that fails.
     */
    private Fleet started(List<Step> steps) {
        Fleet.Plan plan = steps.get(0).plan();
        if (fleets.containsKey(plan)) return fleets.get(plan);
        long start = System.nanoTime();
        Fleet fleet = new Fleet(setup, plan, mqadmin);
        fleets.put(plan, fleet);
        try {
            fleet.start(needed(plan, steps));
        } catch (Exception e) {
            failed++;
            report(steps.get(0).name(), fleet, start, e);
            fleet.end();
            fleets.remove(plan);
            return null;
        }
        line("ready", start, plan.server(), "");
        return fleet;
    }

    /** Ends what none of these steps needs. */
    private void endUnused(List<Step> steps) {
        for (Fleet.Plan plan : List.copyOf(fleets.keySet())) {
            if (steps.stream().noneMatch(step -> step.plan().equals(plan))) {
                fleets.remove(plan).end();
            } else {
                fleets.get(plan).keepOnly(needed(plan, steps));
            }
        }
    }

    private void one(Step step, Fleet fleet) {
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
                report(step.name(), fleet, start, new Mismatch("the step as marked",
                    "to fail with Java: " + step.differs().reason(), "passed: " + seen));
            }
        } catch (Mismatch e) {
            if (!shouldPass && step.differs().explains(e)) {
                passed++;
                line("differs", start, step.name(), step.differs().reason());
            } else {
                failed++;
                report(step.name(), fleet, start, e);
            }
        } catch (Exception e) {
            failed++;
            report(step.name(), fleet, start, e);
        }
    }

    private static void line(String result, long start, String name, String text) {
        System.out.println(String.format(Locale.ROOT, "%-7s %5.1f s  %-22s %s", result,
            secondsSince(start), name, text).stripTrailing());
    }

    private static double secondsSince(long start) {
        return (System.nanoTime() - start) / 1e9;
    }

    private void report(String name, Fleet fleet, long start, Exception why) {
        line("FAILED", start, name, "");
        explain(why);
        for (Program program : fleet.programs()) {
            System.out.println("  end of " + program.log
                + (program.alive() ? "" : " (exit code " + program.process.exitValue() + ")"));
            program.tail(TAIL_LINES).forEach(text -> System.out.println("    " + text));
        }
        System.out.println("  again: " + System.getProperty("interop.command") + " " + name);
    }

    private void explain(Exception why) {
        if (why instanceof Mismatch mismatch) {
            System.out.println("  of:       " + mismatch.what);
            System.out.println("  expected: " + mismatch.expected);
            System.out.println("  got:      " + mismatch.got);
        } else {
            why.printStackTrace(System.out);
        }
        Answer last = mqadmin.last();
        System.out.println("  last command: " + last.command());
        last.text().lines().limit(TAIL_LINES).forEach(text -> System.out.println("    " + text));
    }
}
