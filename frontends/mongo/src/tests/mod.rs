//! What commands on data do, one file for each family.

mod aggregating;
mod checking;
mod definitions;
mod made_up;
mod planning;
mod reading;
mod schema;
mod writing;
