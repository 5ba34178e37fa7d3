import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.TimeUnit;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Collectors;

/**
 * All commands of mqadmin 5.5.0 that talk to a name server and end by themselves, in order, with a
 * relay that sees what each asks of the name server. Expected is what the Java NameServer did.
 */
final class SweepSteps {
    private static final String TABLE = "sweep/mqadmin-5.5.0.tsv";
    private static final String A = "sweep-a";
    private static final String B = "sweep-b";
    /** Nobody else's, because the lists of topics are compared. */
    private static final Fleet.Plan FLEET = new Fleet.Plan("sweep-server",
        List.of("allowRemoteConfigUpdate=true"), List.of(
            Broker.Plan.member(A, Fleet.A, 0, "ASYNC_MASTER"),
            Broker.Plan.member(B, Fleet.B, 0, "ASYNC_MASTER")));

    static final List<Step> ALL = List.of(
        new Step("mqadmin-sweep", "127 commands of mqadmin do what they do with the Java server",
            FLEET, List.of(A, B), SweepSteps::sweep));

    /** What {@code Chatter} uses, and some commands look at. */
    private static final String TOPIC = "t_on";
    private static final String PRODUCERS = "p_on";
    private static final String CONSUMERS = "g_on";
    /** How long it may take until the name server knows what a broker was told. */
    private static final double SETTLED_SECONDS = 5;
    private static final int RESULT_CHARACTERS_MAX = 200;

    /** What guidepost does on purpose instead, by command. */
    private static final Map<String, Outcome> DIFFERENCES = Map.of(
        // It has no effect in guidepost; a success would say that it has.
        "updateNamesrvConfig -k scanNotActiveBrokerInterval -v 4000",
        new Outcome("318=16", "refused 16 Can not update config that is fixed while the server "
            + "runs: scanNotActiveBrokerInterval. Change the settings file and restart."));

    private SweepSteps() { }

    /**
     * What a command did.
     *
     * @param requests the codes of its requests to the name server, each once, with that of the
     *     answer unless 0; or "none"
     * @param result what it printed, without what differs from run to run
     */
    private record Outcome(String requests, String result) {
        @Override public String toString() {
            return requests + "\t" + result;
        }
    }

    private static String sweep(Fleet fleet) throws Exception {
        startChatter(fleet);
        Sweep sweep = new Sweep(fleet);
        Path table = fleet.setup.source(TABLE);
        return Boolean.getBoolean("interop.record") ? sweep.record(table) : sweep.compare(table);
    }

    private static void startChatter(Fleet fleet) throws Exception {
        fleet.mqadmin("updateTopic", "-c", Fleet.CLUSTER, "-t", TOPIC);
        Expect.within(SETTLED_SECONDS, "the brokers of " + TOPIC, Fleet.A + ", " + Fleet.B,
            () -> fleet.route(TOPIC).members().keySet(), brokers -> brokers.size() == 2);
        Path folder = fleet.setup.runFolder.resolve("chatter");
        List<String> command = fleet.setup.jvm(JarSet.V5, folder, 256);
        command.addAll(List.of("Chatter", fleet.server.address(), TOPIC, PRODUCERS, CONSUMERS));
        Program chatter = Program.start("chatter", folder, Setup.environment(folder), command);
        fleet.watch(chatter);
        Expect.within(120, "the log of Chatter", "both ways", () -> chatter.tail(50),
            lines -> lines.contains("both ways"));
    }

    /** One way through the table. */
    private static final class Sweep {
        private final Fleet fleet;
        private final Tap tap;
        private final Path folder;
        /** Those of the commands so far; each command makes its own. */
        private int connections;
        /** What differs from run to run, and what the table has instead; in this order. */
        private final Map<Pattern, String> varying = new LinkedHashMap<>();

        Sweep(Fleet fleet) throws Exception {
            this.fleet = fleet;
            this.tap = new Tap(fleet.setup.freePorts(), fleet.server.address());
            this.folder = fleet.setup.runFolder.resolve("sweep");
            Files.createDirectories(folder);
            Files.writeString(folder.resolve("topics.json"),
                "[{\"topicName\":\"list1\",\"readQueueNums\":4,\"writeQueueNums\":4,\"perm\":6}]");
            Files.writeString(folder.resolve("groups.json"), "[{\"groupName\":\"glist1\"}]");
            varies(Pattern.quote(tap.address()), "NAMESERVER");
            // Which broker is told first depends on the numbers of their ports.
            varies(Pattern.quote(address(A)) + "|" + Pattern.quote(address(B)), "BROKER");
            varies(Pattern.quote(fleet.setup.runFolder.toString()) + "/[a-z]+", "FOLDER");
            varies("\\b[0-9A-F]{24,}\\b", "ID");
            varies("\\S+@\\S+", "CLIENT");
            varies("127\\.0\\.0\\.1:\\d{4,5}", "ADDRESS");
            varies("\\d{10,}", "TIME");
            varies("\\b\\d+ ?ms\\b", "TIME");
            varies("(?<=queueId[=:])\\d+|(?<=ffset=)\\d+|(?<=storeSize=)\\d+", "N");
        }

        private void varies(String pattern, String instead) {
            varying.put(Pattern.compile(pattern), instead);
        }

        private String address(String broker) {
            return fleet.broker(broker).address();
        }

        /** Runs all commands, and says which did something else than the table says. */
        String compare(Path table) throws Exception {
            List<String> wrong = new ArrayList<>();
            Set<String> differences = new TreeSet<>();
            int count = 0;
            for (String line : Files.readAllLines(table)) {
                if (line.startsWith("#")) continue;
                count++;
                String[] columns = line.split("\t", 3);
                Expect.equal("the columns of " + line, 3, columns.length);
                Outcome expected = new Outcome(columns[1], columns[2]);
                Outcome other = DIFFERENCES.get(columns[0]);
                if (other != null && fleet.setup.kind == Setup.Kind.GUIDEPOST) {
                    differences.add(columns[0]);
                    expected = other;
                }
                Outcome got = outcome(columns[0], expected);
                if (got.equals(expected)) continue;
                wrong.add("\n    " + columns[0] + "\n      expected " + expected
                    + "\n      got      " + got);
            }
            Expect.that("the commands", "the outcomes of " + table, wrong.isEmpty(),
                wrong.size() + " others:" + String.join("", wrong));
            return count + " commands, on purpose otherwise: " + differences.size();
        }

        /** Writes what the commands do into the table. */
        String record(Path table) throws Exception {
            List<String> lines = new ArrayList<>();
            for (String line : Files.readAllLines(table)) {
                String command = line.split("\t", 2)[0];
                lines.add(line.startsWith("#") ? line : command + "\t" + outcome(command));
                // For recording alone: there is nothing to compare with, hence nothing to await.
                if (!line.startsWith("#") && !isQuery(command)) TimeUnit.SECONDS.sleep(1);
            }
            Files.write(table, lines);
            return "written: " + table;
        }

        /** The outcome of a command; a query is repeated until it gives what is expected. */
        private Outcome outcome(String command, Outcome expected) throws Exception {
            long end = System.nanoTime() + TimeUnit.SECONDS.toNanos((long) SETTLED_SECONDS);
            Outcome got = outcome(command);
            while (isQuery(command) && !got.equals(expected) && System.nanoTime() < end) {
                got = outcome(command);
            }
            return got;
        }

        private static boolean isQuery(String command) {
            return command.matches("(topic|get|cluster|consumer|print|query|stats).*");
        }

        private Outcome outcome(String command) throws Exception {
            String ready = command.replace("$A", address(A)).replace("$B", address(B))
                .replace("$W", folder.toString());
            Answer answer = fleet.mqadminThrough(tap, ready.split(" "));
            Set<String> requests = tap.requests(request -> request.connection() > connections)
                .stream().map(Sweep::codes).collect(Collectors.toCollection(LinkedHashSet::new));
            connections = tap.requests(request -> true).stream()
                .mapToInt(Tap.Request::connection).max().orElse(0);
            return new Outcome(requests.isEmpty() ? "none" : String.join(" ", requests),
                result(command, answer));
        }

        /** A client may look for routes in the background, and be closed before the answer. */
        private static String codes(Tap.Request request) {
            String code = Integer.toString(request.code());
            boolean refused = request.answer() != null && !request.answered(0);
            return refused ? code + "=" + request.answer().getCode() : code;
        }

        private String result(String command, Answer answer) {
            Matcher exception = Pattern.compile("Exception: (.*)").matcher(answer.text());
            String result;
            if (!answer.refusal().equals("none")) result = "refused " + answer.refusal();
            else if (exception.find()) result = "exception " + exception.group(1);
            else if (command.startsWith("topicRoute") && !command.endsWith("-l")) {
                result = Route.read("", answer).toString();
            } else if (command.equals("topicList")) {
                return answer.lines().stream().sorted().collect(Collectors.joining(" "));
            } else {
                result = answer.lines().stream().findFirst().orElse("");
            }
            for (Map.Entry<Pattern, String> one : varying.entrySet()) {
                result = one.getKey().matcher(result).replaceAll(one.getValue());
            }
            result = result.replaceAll("\\s+", " ").strip();
            return result.substring(0, Math.min(result.length(), RESULT_CHARACTERS_MAX));
        }
    }
}
