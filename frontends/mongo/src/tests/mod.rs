//! What commands on data do, one file for each family.

mod reading;
mod writing;
