package headwater.spark.shims

import org.apache.spark.rdd.RDD
import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.Attribute
import org.apache.spark.sql.catalyst.plans.logical.{LogicalPlan, Statistics}
import org.apache.spark.sql.catalyst.plans.physical.UnknownPartitioning
import org.apache.spark.sql.execution.LogicalRDD

/** A `LogicalRDD` with statistics. Its constructor has nine parameters in Spark 4.2; 4.3 added `fromCheckpoint`. */
object LogicalRddShim {
  def apply(output: Seq[Attribute], rows: RDD[InternalRow], session: SparkSession, statistics: Statistics): LogicalPlan = {
    val common = Seq[AnyRef](output, rows, UnknownPartitioning(0), Nil, Boolean.box(false), None, session, Some(statistics), None)
    val added = Seq[AnyRef](Boolean.box(false))
    val constructor = classOf[LogicalRDD].getConstructors.head
    constructor.newInstance((common ++ added).take(constructor.getParameterCount): _*).asInstanceOf[LogicalPlan]
  }
}
