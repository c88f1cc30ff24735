//! The service around the tables: properties, CORS, statistics, access policies, all in XML.
