// The same sources as jvm/build.py compiles, for sbt and IDEs: `sbt test` compiles them and runs the JVM unit tests.
// What both builds must agree on is kept in one place: versions in versions.py, the flags in jvm/scalac.options.
// sbt compiles for the newest Sparks alone.

val supportedSpark = settingKey[Seq[String]]("The Spark versions that versions.py names for the newest build, oldest first")

ThisBuild / scalaVersion := "2.13.18" // what Spark 4.2 was built with
ThisBuild / supportedSpark := {
  val versions = IO.read((ThisBuild / baseDirectory).value / "python" / "headwater" / "basics" / "versions.py")
  val listed = """SPARK_4_2 = \(([^)]*)\)""".r.findFirstMatchIn(versions).map(_.group(1))
  listed.map("\"([^\"]+)\"".r.findAllMatchIn(_).map(_.group(1)).toSeq).filter(_.nonEmpty)
    .getOrElse(sys.error("python/headwater/basics/versions.py names no supported Spark"))
}

lazy val headwater = (project in file("."))
  .settings(
    name := "headwater",
    autoScalaLibrary := false, // Spark brings its own
    scalacOptions ++= IO.readLines(baseDirectory.value / "jvm" / "scalac.options"),
    javacOptions ++= Seq("-encoding", "UTF-8", "--release", "17"),
    Compile / sourceDirectory := baseDirectory.value / "jvm" / "src" / "main",
    Compile / unmanagedSourceDirectories ++= Seq("shims/common", "shims/since-4.1", "shims/spark-4.2", "compat").map(baseDirectory.value / "jvm" / _),
    Test / sourceDirectory := baseDirectory.value / "jvm" / "src" / "test",
    target := baseDirectory.value / "target",
    libraryDependencies ++= Seq(
      "org.apache.spark" %% "spark-sql" % supportedSpark.value.head % Provided,
      "org.apache.spark" %% "spark-hive" % supportedSpark.value.head % Provided,
      "org.scalameta" %% "munit" % "1.2.1" % Test
    ),
    Compile / resourceGenerators += Def.task {
      val conditions = (Compile / resourceManaged).value / "headwater" / "error-conditions.json"
      IO.copyFile(baseDirectory.value / "conf" / "error-conditions.json", conditions)
      val properties = (Compile / resourceManaged).value / "headwater" / "build.properties"
      val versions = baseDirectory.value / "python" / "headwater" / "basics" / "versions.py"
      IO.write(properties, scala.sys.process.Process(Seq("python3", "-I", versions.getPath)).!!)
      Seq(conditions, properties)
    }.taskValue,
    Test / fork := true,
    // Spark on Java 17 and newer reaches into the JDK; its launcher passes the same flags.
    Test / javaOptions ++= Seq("java.lang", "java.lang.invoke", "java.io", "java.net", "java.nio", "java.util",
      "java.util.concurrent", "sun.nio.ch", "sun.nio.cs", "sun.security.action", "sun.util.calendar")
      .map(name => s"--add-opens=java.base/$name=ALL-UNNAMED")
  )

// What an older Spark needs is compiled by jvm/build.py, beside that Spark; here it is formatted.
lazy val older = (project in file("jvm/shims"))
  .settings(
    autoScalaLibrary := false,
    Compile / unmanagedSourceDirectories := Seq("until-4.1", "spark-4.0").map(baseDirectory.value / _),
    target := (ThisBuild / baseDirectory).value / "target" / "older"
  )
