import java.util.HashMap;
import java.util.Map;
import java.util.Set;
import org.apache.spark.sql.catalyst.analysis.NoSuchTableException;
import org.apache.spark.sql.connector.catalog.Column;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.sql.connector.catalog.NamespaceChange;
import org.apache.spark.sql.connector.catalog.SupportsNamespaces;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.catalog.TableCapability;
import org.apache.spark.sql.connector.catalog.TableCatalog;
import org.apache.spark.sql.connector.catalog.TableChange;
import org.apache.spark.sql.connector.expressions.Transform;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/** Entries of tables that no other catalog knows, in one namespace. */
public class MemoryCatalog implements TableCatalog, SupportsNamespaces {
  private static final String[] SPACE = {"space"};
  private final Map<Identifier, Entry> entries = new HashMap<>();
  private String name;

  private static final class Entry implements Table {
    final String name;
    final Column[] columns;
    final Map<String, String> properties;

    Entry(String name, Column[] columns, Map<String, String> properties) {
      this.name = name;
      this.columns = columns;
      this.properties = new HashMap<>(properties);
    }

    @Override public String name() { return name; }
    @Override public Column[] columns() { return columns; }
    @Override public Map<String, String> properties() { return properties; }
    @Override public Set<TableCapability> capabilities() { return Set.of(); }
  }

  @Override public void initialize(String name, CaseInsensitiveStringMap options) { this.name = name; }
  @Override public String name() { return name; }
  @Override public Identifier[] listTables(String[] namespace) { return entries.keySet().toArray(new Identifier[0]); }

  @Override public Table loadTable(Identifier ident) throws NoSuchTableException {
    if (!entries.containsKey(ident)) throw new NoSuchTableException(ident);
    return entries.get(ident);
  }

  @Override public Table createTable(Identifier ident, Column[] columns, Transform[] partitions, Map<String, String> properties) {
    entries.put(ident, new Entry(ident.name(), columns, properties));
    return entries.get(ident);
  }

  @Override public Table alterTable(Identifier ident, TableChange... changes) {
    for (TableChange change : changes) {
      TableChange.SetProperty set = (TableChange.SetProperty) change;
      entries.get(ident).properties.put(set.property(), set.value());
    }
    return entries.get(ident);
  }

  @Override public boolean dropTable(Identifier ident) { return entries.remove(ident) != null; }

  @Override public void renameTable(Identifier from, Identifier to) { entries.put(to, entries.remove(from)); }

  @Override public String[][] listNamespaces() { return new String[][] {SPACE}; }
  @Override public String[][] listNamespaces(String[] namespace) { return new String[0][]; }
  @Override public boolean namespaceExists(String[] namespace) { return java.util.Arrays.equals(namespace, SPACE); }
  @Override public Map<String, String> loadNamespaceMetadata(String[] namespace) { return Map.of(); }
  @Override public void createNamespace(String[] namespace, Map<String, String> metadata) { }
  @Override public void alterNamespace(String[] namespace, NamespaceChange... changes) { }
  @Override public boolean dropNamespace(String[] namespace, boolean cascade) { return false; }
}
