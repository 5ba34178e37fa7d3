import java.util.function.Predicate;

/** Assertions, at once or within a deadline. A failure is always a {@link Mismatch}. */
final class Expect {
    /** A closed connection is seen at once; this allows for a busy machine. */
    static final double AT_ONCE_SECONDS = 5;
    /** One turn, and what a broker needs to notice that the server can be reached again. */
    static final double ONE_HEARTBEAT_SECONDS = Broker.HEARTBEAT_SECONDS + 2;
    /** For what is not in question, and slow on a busy machine. */
    static final double PATIENCE_SECONDS = 30;
    private static final long POLL_MILLIS = 100;

    private Expect() { }

    /** Something that is asked again and again until it is as wanted. */
    interface Probe<T> {
        T ask() throws Exception;
    }

    static void equal(String what, Object expected, Object got) {
        if (!expected.equals(got)) throw new Mismatch(what, expected, got);
    }

    static void that(String what, String expected, boolean holds, Object got) {
        if (!holds) throw new Mismatch(what, expected, got);
    }

    /** Asks until the answer equals {@code expected}; returns the seconds that took. */
    static double equalWithin(double seconds, String what, Object expected, Probe<?> probe)
            throws Exception {
        long start = System.nanoTime();
        within(seconds, what, String.valueOf(expected), probe, expected::equals);
        return (System.nanoTime() - start) / 1e9;
    }

    /** Asks until the answer is {@code good}, and returns it; the deadline is a mismatch. */
    static <T> T within(double seconds, String what, String expected, Probe<T> probe,
            Predicate<? super T> good) throws Exception {
        long start = System.nanoTime();
        for (;;) {
            // Read before asking: an answer that began in time counts.
            double passed = (System.nanoTime() - start) / 1e9;
            T got = probe.ask();
            if (good.test(got)) return got;
            if (passed > seconds) {
                throw new Mismatch(what, expected + " within " + seconds + " s", got);
            }
            Thread.sleep(POLL_MILLIS);
        }
    }
}
