import io.delta.kernel.Operation;
import io.delta.kernel.Snapshot;
import io.delta.kernel.defaults.engine.DefaultEngine;
import io.delta.kernel.engine.Engine;
import io.delta.kernel.unitycatalog.UCCatalogManagedClient;
import io.delta.kernel.unitycatalog.UCTableIdentifier;
import io.delta.kernel.utils.CloseableIterable;
import io.delta.storage.commit.TableIdentifier;
import io.delta.storage.commit.uccommitcoordinator.UCDeltaModels.TableInfo;
import io.delta.storage.commit.uccommitcoordinator.UCDeltaTokenBasedRestClient;
import java.util.HashMap;
import java.util.Map;
import java.util.Optional;
import java.util.Scanner;
import org.apache.hadoop.conf.Configuration;

/**
 * Delta Lake's kernel with its own client of Unity Catalog: writes versions of a table that the catalog manages, and says what it reads.
 * Arguments: address, catalog, schema, table, how many versions. The token is the first line of its input; it begins at the second.
 */
public final class KernelWriter {
  private final Engine engine = DefaultEngine.create(new Configuration());
  private final UCCatalogManagedClient tables;
  private final UCTableIdentifier name;
  private final TableInfo info;

  private KernelWriter(UCDeltaTokenBasedRestClient client, String catalog, String schema, String table) throws Exception {
    tables = new UCCatalogManagedClient(client);
    name = new UCTableIdentifier(catalog, schema, table);
    info = client.loadTable(new TableIdentifier(new String[] {catalog, schema}, table));
  }

  private Snapshot load() {
    // Its committer compares a log's path with one that has a scheme.
    String location = info.getLocation().startsWith("/") ? "file:" + info.getLocation() : info.getLocation();
    return tables.loadSnapshot(engine, info.getTableId().toString(), location, name, Optional.empty(), Optional.empty());
  }

  /** A version that notes a transaction of this writer; and, at each third, a property. Publishes it. */
  private void write(int number) throws Exception {
    var building = load().buildUpdateTableTransaction("KernelWriter", Operation.MANUAL_UPDATE).withTransactionId("kernel", number);
    if (number % 3 == 0) {
      building = building.withTablePropertiesAdded(Map.of("kernel", String.valueOf(number)));
    }
    Optional<Snapshot> made = building.build(engine).commit(engine, CloseableIterable.emptyIterable()).getPostCommitSnapshot();
    if (made.isPresent()) {
      made.get().publish(engine);
    }
  }

  public static void main(String[] arguments) throws Exception {
    Scanner input = new Scanner(System.in);
    Map<String, String> settings = new HashMap<>(Map.of("uri", arguments[0], "token", input.nextLine()));
    try (var client = new UCDeltaTokenBasedRestClient(settings, Configuration::new)) {
      KernelWriter writer = new KernelWriter(client, arguments[1], arguments[2], arguments[3]);
      System.out.println("opened");
      System.out.flush();
      input.nextLine();
      int conflicts = 0;
      for (int number = 1; number <= Integer.parseInt(arguments[4]); ) {
        try {
          writer.write(number);
          number++;
        } catch (io.delta.kernel.exceptions.ConcurrentWriteException | io.delta.kernel.exceptions.MaxCommitRetryLimitReachedException e) {
          conflicts++;
        }
      }
      System.out.println("conflicts: " + conflicts);
      System.out.flush();
      input.nextLine();
      Snapshot last = writer.load();
      System.out.println("read: " + last.getVersion() + " " + last.getLatestTransactionVersion(writer.engine, "kernel").get() + " "
          + last.getLatestTransactionVersion(writer.engine, "headwater").get() + " " + last.getTableProperties().get("kernel"));
    }
  }
}
