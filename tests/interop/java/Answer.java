import java.util.Arrays;
import java.util.List;
import java.util.regex.MatchResult;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * What one mqadmin command printed.
 *
 * <p>Its exit code says nothing (0 after server errors and unknown commands), so it is not kept.
 */
record Answer(String command, String text) {
    private static final Pattern REFUSAL = Pattern.compile("CODE: (\\d+) +DESC: (.*)");

    List<String> lines() {
        return text.lines().map(String::strip).filter(line -> !line.isEmpty()).toList();
    }

    /** The rows of a table, split at blanks, without its heading. */
    List<List<String>> rows() {
        return lines().stream().filter(line -> !line.startsWith("#"))
            .map(line -> Arrays.asList(line.split("\\s+"))).toList();
    }

    /** Each place where a pattern matches. */
    List<MatchResult> matches(String pattern) {
        return Pattern.compile(pattern).matcher(text).results().toList();
    }

    /** "CODE remark" of a refusal by a server, or "none". */
    String refusal() {
        Matcher found = REFUSAL.matcher(text);
        return found.find() ? found.group(1) + " " + found.group(2) : "none";
    }
}
