import java.util.List;

/**
 * One part of the suite, which can run alone.
 *
 * @param name what {@code run NAME} runs
 * @param claim what has been shown when it passes
 * @param brokers the brokers that must be registered before it begins
 * @param body throws a {@link Mismatch}, or returns what it saw in a few words
 * @param controlsServer whether it starts, stops or kills servers
 * @param differs why the Java NameServer fails this step, or null if it passes, too
 */
record Step(String name, String claim, List<String> brokers, Body body, boolean controlsServer,
        String differs) {
    /** The doing of a step. */
    interface Body {
        String run(Fleet fleet) throws Exception;
    }

    Step(String name, String claim, List<String> brokers, Body body) {
        this(name, claim, brokers, body, false, null);
    }

    /** Marks a step that is impossible against a server which somebody else started. */
    Step thatControlsServers() {
        return new Step(name, claim, brokers, body, true, differs);
    }

    /** Marks a step in which guidepost is meant to do better than the Java NameServer. */
    Step thatDiffers(String reason) {
        return new Step(name, claim, brokers, body, controlsServer, reason);
    }

    boolean passesWith(Setup.Kind kind) {
        return kind != Setup.Kind.JAVA || differs == null;
    }

    boolean possibleWith(Setup.Kind kind) {
        return kind != Setup.Kind.GIVEN || !controlsServer;
    }
}
