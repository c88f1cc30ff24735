//! What commands on data do, one file for each family.

mod aggregating;
mod change_definitions;
mod change_fragments;
mod change_images;
mod change_streams;
mod checking;
mod definitions;
mod depths;
mod made_up;
mod oplog;
mod planning;
mod reading;
mod schema;
mod tailing;
mod without_effect;
mod writing;
