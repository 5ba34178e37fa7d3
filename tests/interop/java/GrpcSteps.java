import java.util.ArrayList;
import java.util.List;

/** Clients that speak gRPC to the proxy 5.5.0, which asks the name server for them. */
final class GrpcSteps {
    private static final List<String> BOTH = List.of(Fleet.A, Fleet.B);
    private static final int COUNT = 50;

    static final List<Step> ALL = List.of(
        new Step("grpc-java", "rocketmq-client-java 5.1.0 sends and receives through the proxy",
            BOTH, fleet -> roundTrip(fleet, "grpc-java", java(fleet))).thatNeeds(JarSet.GRPC),
        new Step("grpc-node", "rocketmq-client-nodejs 1.0.8 sends and receives through the proxy",
            BOTH, fleet -> roundTrip(fleet, "grpc-node", ClientSteps.node(fleet, "proxy")))
            .thatNeeds(Tool.NODE),
        new Step("grpc-python", "rocketmq-python-client 5.1.2 sends and receives through the proxy",
            BOTH, fleet -> roundTrip(fleet, "grpc-python", ClientSteps.python(fleet, "proxy")))
            .thatNeeds(Tool.PYTHON));

    private GrpcSteps() { }

    /** The proxy makes neither topics nor groups, and remembers for 20 s that it found none. */
    private static String roundTrip(Fleet fleet, String name, List<String> command)
            throws Exception {
        String topic = "made-for-" + name;
        fleet.makeTopic(topic, 4);
        Answer answer = fleet.mqadmin("updateSubGroup", "-c", Fleet.CLUSTER, "-g",
            "consumer-of-" + topic);
        Expect.equal("the brokers that have the group", 2,
            answer.matches("create subscription group to \\S+ success").size());
        List<String> full = new ArrayList<>(command);
        full.addAll(List.of(fleet.proxy().address(), topic, Integer.toString(COUNT), "60"));
        String result = fleet.clientResult(name, full);
        Expect.equal("the messages", "sent=" + COUNT + " received=" + COUNT + " strangers=0",
            result);
        return result;
    }

    private static List<String> java(Fleet fleet) throws Exception {
        List<String> command = fleet.setup.jvm(JarSet.GRPC,
            fleet.setup.runFolder.resolve("grpc-java"), 256);
        command.add("GrpcRoundTrip");
        return command;
    }
}
