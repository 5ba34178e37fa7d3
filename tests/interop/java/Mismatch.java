/** What a step expected, and what it got instead. */
final class Mismatch extends RuntimeException {
    final String what;
    final String expected;
    final String got;

    Mismatch(String what, Object expected, Object got) {
        super(what + ": expected " + expected + ", got " + got);
        this.what = what;
        this.expected = String.valueOf(expected);
        this.got = String.valueOf(got);
    }
}
