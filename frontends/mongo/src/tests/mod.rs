//! What commands on data do, one file for each family.

mod aggregating;
mod checking;
mod planning;
mod reading;
mod schema;
mod writing;
