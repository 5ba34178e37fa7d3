/** The jars of one release of RocketMQ. A JVM has those of one set, never of two. */
enum JarSet {
    /** Brokers, containers, NameServer, mqadmin, clients; every run has it. */
    V5("5.5.0"),
    V4("4.9.7"),
    /** The client alone. */
    V43("4.3.2"),
    /** The client that speaks gRPC. */
    GRPC("grpc");

    /** The name of its POM, of its folder of jars, and of that of the programs made with them. */
    final String folder;

    JarSet(String folder) {
        this.folder = folder;
    }
}
