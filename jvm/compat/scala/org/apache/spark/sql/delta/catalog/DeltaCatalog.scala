package org.apache.spark.sql.delta.catalog

import headwater.spark.HeadwaterCatalog

/** Headwater's catalog under the name that settings, and catalogs that wrap Delta's, know. */
class DeltaCatalog extends HeadwaterCatalog
