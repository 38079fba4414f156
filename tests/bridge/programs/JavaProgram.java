import static org.apache.spark.sql.functions.col;
import static org.apache.spark.sql.functions.expr;

import java.util.HashMap;
import java.util.Map;

import io.delta.tables.DeltaTable;
import org.apache.spark.sql.Column;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.types.DataTypes;

/** The same for Java. */
public class JavaProgram {
    public static void run(SparkSession spark, String root) {
        DeltaTable table = DeltaTable.create(spark).location(root + "/java").addColumn("id", DataTypes.LongType)
            .addColumn("v", "STRING").partitionedBy(new String[] {"v"}).execute();
        Map<String, String> texts = new HashMap<>();
        texts.put("id", "s.id");
        texts.put("v", "'new'");
        Map<String, Column> columns = new HashMap<>();
        columns.put("v", expr("concat(v, '!')"));
        table.as("t").merge(spark.range(3).toDF().as("s"), "t.id = s.id")
            .whenMatched().updateExpr(texts)
            .whenNotMatched().insertExpr(texts)
            .execute();
        table.update(col("id").equalTo(1), columns);
        table.updateExpr("id = 2", Map.of("v", "'two'"));
        table.delete(col("id").equalTo(0));
        table.optimize().executeZOrderBy("id");
        System.out.println("java: " + DeltaTable.forPath(root + "/java").toDF().orderBy("id").collectAsList());
    }
}
