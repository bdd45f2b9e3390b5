# What CloudNativePG's catalogue of extension images asks of an extension.  The package is
# in no repository yet: its version is that of debian/changelog.
metadata = {
  name                     = "snowflake-ids"
  sql_name                 = "snowflake"
  image_name               = "snowflake-ids"
  licenses                 = ["PostgreSQL"]
  shared_preload_libraries = ["snowflake"]
  postgresql_parameters    = {}
  extension_control_path   = []
  dynamic_library_path     = []
  ld_library_path          = []
  bin_path                 = []
  env                      = {}
  auto_update_os_libs      = false
  required_extensions      = []
  create_extension         = true

  versions = {
    trixie = {
      "18" = {
        package = "1.0.0-1"
        sql     = "1.0"
      }
    }
  }
}
