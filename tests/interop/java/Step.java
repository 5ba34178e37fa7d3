import java.util.EnumSet;
import java.util.List;
import java.util.Locale;
import java.util.Set;

/**
 * One thing that is shown, which can run alone.
 *
 * @param name what {@code run NAME} runs
 * @param claim what has been shown when it passes
 * @param plan the fleet it runs in
 * @param brokers labels of the fleet's brokers that must be registered before it begins
 * @param body throws a {@link Mismatch}, or returns what it saw in a few words
 * @param sets the jars it needs besides those of 5.5.0
 * @param tools what makes and runs its programs of other languages
 * @param controlsServer whether it starts, stops or kills servers
 * @param slow why it runs only when it is named, or null
 * @param differs why and where the Java NameServer fails this step, or null if it passes, too
 */
record Step(String name, String claim, Fleet.Plan plan, List<String> brokers, Body body,
        Set<JarSet> sets, Set<Tool> tools, boolean controlsServer, String slow,
        Difference differs) {
    /**
     * What the Java NameServer does otherwise.
     *
     * @param check what is checked where the step fails with it
     */
    record Difference(String reason, String check) {
        boolean explains(Mismatch mismatch) {
            return mismatch.what.equals(check);
        }
    }

    /** The doing of a step. */
    interface Body {
        String run(Fleet fleet) throws Exception;
    }

    /** A step in the common fleet. */
    Step(String name, String claim, List<String> brokers, Body body) {
        this(name, claim, Fleet.COMMON, brokers, body);
    }

    /** A step in a fleet that it shares with the other steps of that plan. */
    Step(String name, String claim, Fleet.Plan plan, List<String> brokers, Body body) {
        this(name, claim, plan, brokers, body, EnumSet.noneOf(JarSet.class),
            EnumSet.noneOf(Tool.class), plan != Fleet.COMMON, null, null);
    }

    /** Marks a step that runs programs of another release, too. */
    Step thatNeeds(JarSet first, JarSet... more) {
        return new Step(name, claim, plan, brokers, body, EnumSet.of(first, more),
            tools, controlsServer, slow, differs);
    }

    /** Marks a step that runs a program of another language. */
    Step thatNeeds(Tool tool) {
        return new Step(name, claim, plan, brokers, body, sets, EnumSet.of(tool), controlsServer,
            slow, differs);
    }

    /** Marks a step that is impossible against a server which somebody else started. */
    Step thatControlsServers() {
        return new Step(name, claim, plan, brokers, body, sets, tools, true, slow, differs);
    }

    /** Marks a step that takes too long to be run unasked. */
    Step thatIsSlow(String reason) {
        return new Step(name, claim, plan, brokers, body, sets, tools, controlsServer, reason,
            differs);
    }

    /** Marks a step in which guidepost is meant to do better than the Java NameServer. */
    Step thatDiffers(String reason, String check) {
        return new Step(name, claim, plan, brokers, body, sets, tools, controlsServer, slow,
            new Difference(reason, check));
    }

    boolean passesWith(Setup.Kind kind) {
        return kind != Setup.Kind.JAVA || differs == null;
    }

    boolean possibleWith(Setup.Kind kind) {
        return kind != Setup.Kind.GIVEN || !controlsServer;
    }

    /** What was seen, and when: for the line of a step. */
    static String after(String what, double seconds) {
        return String.format(Locale.ROOT, "%s after %.1f s", what, seconds);
    }
}
