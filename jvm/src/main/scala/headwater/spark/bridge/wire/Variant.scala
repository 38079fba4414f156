package headwater.spark.bridge.wire

/** A message with a member `kind`, which says which of several it is. */
trait Variant extends Message {
  def kind: String
}
