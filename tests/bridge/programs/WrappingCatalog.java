import org.apache.spark.sql.connector.catalog.DelegatingCatalogExtension;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/** A catalog that loads Delta Lake's by its name, and has it keep the entries of tables in a catalog of its own. */
public class WrappingCatalog extends DelegatingCatalogExtension {
  @Override public void initialize(String name, CaseInsensitiveStringMap options) {
    try {
      MemoryCatalog memory = new MemoryCatalog();
      memory.initialize(name, options);
      Object delta = Class.forName("org.apache.spark.sql.delta.catalog.DeltaCatalog").getDeclaredConstructor().newInstance();
      ((DelegatingCatalogExtension) delta).setDelegateCatalog(memory);
      setDelegateCatalog((DelegatingCatalogExtension) delta);
    } catch (ReflectiveOperationException e) {
      throw new IllegalStateException(e);
    }
  }
}
