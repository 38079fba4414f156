package headwater.spark.catalog;

import org.apache.spark.sql.connector.catalog.FunctionCatalog;
import org.apache.spark.sql.connector.catalog.SupportsNamespaces;
import org.apache.spark.sql.connector.catalog.TableCatalog;

/**
 * A catalog with what Spark's interfaces do by default.
 *
 * In Java, as Scala's compiler copies each default method into the class that inherits it: types of the newest Spark would
 * then be among the methods of a JAR that older ones load.
 */
public abstract class CatalogDefaults implements TableCatalog, SupportsNamespaces, FunctionCatalog {}
