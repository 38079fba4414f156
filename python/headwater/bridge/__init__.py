"""The bridge to Spark: the handler process, its gateway, the calls Spark makes and the errors it gets back."""
