import java.net.InetSocketAddress;

import org.apache.hadoop.hive.conf.HiveConf;
import org.apache.hadoop.hive.metastore.HiveMetaStore;
import org.apache.hadoop.hive.metastore.TSetIpAddressProcessor;
import org.apache.hadoop.hive.metastore.txn.TxnDbUtil;
import org.apache.thrift.protocol.TBinaryProtocol;
import org.apache.thrift.server.TThreadPoolServer;
import org.apache.thrift.transport.TServerSocket;

/**
 * Hive's metastore, as Spark's JARs have it, over a Derby that has the tables of locks:
 * {@code java -cp "<pyspark>/jars/*" Metastore.java FOLDER}.
 *
 * Hive's own command listens to every address of the machine; this listens to loopback alone. Prints its port.
 */
public class Metastore {
  public static void main(String[] arguments) throws Exception {
    HiveConf conf = new HiveConf();
    conf.set("javax.jdo.option.ConnectionURL", "jdbc:derby:;databaseName=" + arguments[0] + "/metastore;create=true");
    conf.set("hive.metastore.warehouse.dir", arguments[0] + "/warehouse");
    conf.set("datanucleus.schema.autoCreateAll", "true");
    conf.set("hive.metastore.schema.verification", "false");
    // The connection pool that is the default is none of Spark's JARs.
    conf.set("datanucleus.connectionPoolingType", "DBCP");
    TxnDbUtil.setConfValues(conf);
    TxnDbUtil.prepDb(conf);
    TServerSocket socket = new TServerSocket(new InetSocketAddress("127.0.0.1", 0));
    HiveMetaStore.HMSHandler handler = new HiveMetaStore.HMSHandler("metastore", conf, false);
    TThreadPoolServer server = new TThreadPoolServer(new TThreadPoolServer.Args(socket)
        .processor(new TSetIpAddressProcessor<>(HiveMetaStore.newRetryingHMSHandler(handler, conf, true)))
        .protocolFactory(new TBinaryProtocol.Factory()));
    System.out.println(socket.getServerSocket().getLocalPort());
    System.out.flush();
    server.serve();
  }
}
