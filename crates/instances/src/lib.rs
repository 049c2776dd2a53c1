//! Instance types: the hardware and the prices of AWS, what a node has for pods, and catalogs in
//! files.
//!
//! ```text
//! table.rs       AWS's instance types with their prices, from table.csv, which table.py writes
//! size.rs        what a node of a type has for pods, before there is a node to look at
//! price.rs       the price of an instance, and where it comes from
//! classes.rs     instance types of equal size
//! file.rs        the catalog in a file, and in the settings of a run
//! aws_prices.rs  prices that were read from AWS
//! reservation.rs capacity reservations of AWS
//! unfit.rs       why pods fit no instance type, in words
//! ```

mod aws_prices;
mod classes;
mod file;
mod price;
mod reservation;
mod size;
mod table;
mod unfit;

pub use aws_prices::{AwsPrices, ListedPrice, SpotPrices};
pub use classes::{SizeClass, class_for, is_size_class, size_classes};
pub use file::{CatalogFault, CatalogFile, GroupEntry, InstanceTypeEntry};
pub use price::{Bought, Price, PriceChange, PriceRule, PriceRules, PriceSource, Purchase};
pub use reservation::{CapacityReservation, ReservationSelector};
pub use size::{Network, PodAddresses, Reserved, for_pods, pods_max, usable_memory};
pub use table::{
    Accelerators, InstanceType, families, family, instance_type, instance_types, prices_date,
};
pub use unfit::why_unfit;
