import java.io.DataInputStream;
import java.net.InetSocketAddress;
import java.net.Socket;
import java.nio.ByteBuffer;
import java.util.Map;
import java.util.TreeMap;
import org.apache.rocketmq.remoting.protocol.RemotingCommand;
import org.apache.rocketmq.remoting.protocol.RemotingSerializable;
import org.apache.rocketmq.remoting.protocol.body.ClusterInfo;

/** Single requests to a name server, where mqadmin has no command for them or shows too little. */
final class Ask {
    private static final int ANSWER_MILLIS = 10_000;
    private static final int CLUSTER_INFO = 106;

    private Ask() { }

    static RemotingCommand ask(NameServer server, int code, Map<String, String> fields)
            throws Exception {
        String address = server.address();
        String host = address.substring(0, address.lastIndexOf(':'));
        RemotingCommand request = RemotingCommand.createRequestCommand(code, null);
        fields.forEach(request::addExtField);
        try (Socket socket = new Socket()) {
            socket.connect(new InetSocketAddress(host, server.port()), ANSWER_MILLIS);
            socket.setSoTimeout(ANSWER_MILLIS);
            ByteBuffer frame = request.encode();
            socket.getOutputStream().write(frame.array(), frame.arrayOffset(), frame.limit());
            DataInputStream in = new DataInputStream(socket.getInputStream());
            return RemotingCommand.decode(ByteBuffer.wrap(in.readNBytes(in.readInt())));
        }
    }

    /** The addresses of all brokers that the server knows, also of those that have none. */
    static Map<String, Map<Long, String>> addresses(NameServer server) throws Exception {
        RemotingCommand answer = ask(server, CLUSTER_INFO, Map.of());
        ClusterInfo info = RemotingSerializable.decode(answer.getBody(), ClusterInfo.class);
        Map<String, Map<Long, String>> addresses = new TreeMap<>();
        info.getBrokerAddrTable().forEach((name, broker) ->
            addresses.put(name, new TreeMap<>(broker.getBrokerAddrs())));
        return addresses;
    }
}
