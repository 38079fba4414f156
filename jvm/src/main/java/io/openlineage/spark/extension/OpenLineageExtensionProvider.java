package io.openlineage.spark.extension;

/**
 * The interface by which OpenLineage's Spark listener finds extensions, declared as its JAR has it: whichever of the two is loaded first
 * serves both. Without it here, a listener in a class loader above ours would find an extension that it cannot load, and name no table
 * of any format.
 */
public interface OpenLineageExtensionProvider {
  String shadedPackage();

  default String getVisitorClassName() {
    return shadedPackage() + ".extension.v1.lifecycle.plan.SparkOpenLineageExtensionVisitor";
  }
}
