// careless.rs -- what sqlx does not compile, as doc/languages.md says: nobody told the
// macro that the column is an Id

fn main() {
    sqlx::query!("SELECT id FROM photos");
}
