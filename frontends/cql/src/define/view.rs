//! CREATE, ALTER and DROP MATERIALIZED VIEW.

use bytes::Bytes;
use tessera_core::Error;
use tessera_core::definition::NewContainer;

use super::change::place;
use super::table::{id_of, throughput};
use super::{Definer, Done, changed, nothing, nothing_there, refuse};
use crate::catalog::{Relation, keyspace_of};
use crate::execute::build_view;
use crate::failure::Failure;
use crate::plan::FollowingView;
use crate::schema::{self, Table, create_view};
use crate::statement::{CreateView, Properties, QualifiedName, Resource};
use crate::wire::{ChangeTarget, ChangeType};

pub(super) async fn create(definer: &Definer<'_>, create: &CreateView) -> Done {
    let entry = definer.keyspace(&create.name)?;
    let keyspace = &entry.keyspace.name;
    if create
        .table
        .keyspace
        .as_ref()
        .is_some_and(|other| other != keyspace)
    {
        return refuse("Cannot create a materialized view on a table in a different keyspace");
    }
    let Some(base) = entry.relation(&create.table.name) else {
        entry.check_damaged(&create.table.name)?;
        return refuse(format!("Base table '{}' doesn't exist", create.table.name));
    };
    let name = &create.name.name;
    if entry
        .relation(name)
        .is_some_and(|there| there.view.is_none())
    {
        return refuse(format!(
            "Cannot create materialized view '{name}' - a table with the same name already exists"
        ));
    }
    if definer.is_there(entry, name, create.if_not_exists)? {
        return nothing();
    }
    check_base(base, name)?;
    let id = id_of(definer, &create.properties)?;
    let view = create_view(create, &base.table, id)?;
    let new = NewContainer {
        throughput: throughput(&view.table)?,
        schema: Bytes::from(schema::Relation::View(view).encode()?),
        counts_logical_partitions: true,
        requires_database: true,
        ..NewContainer::default()
    };
    let store = &definer.service.store;
    store.create_container(&place(keyspace, name), &new).await?;
    // From here on every write to the table writes the view, too; then what was there before is
    // added.
    let mut views = base.views.clone();
    views.push(name.clone());
    let followed = schema::Relation::Table(Table::clone(&base.table), views);
    if let Err(failure) = definer.replace(base, &followed).await {
        store.drop_container(&place(keyspace, name)).await?;
        return Err(failure);
    }
    if let Err(failure) = fill(definer, keyspace, (&base.table.name, name)).await {
        let view = QualifiedName {
            keyspace: Some(keyspace.clone()),
            name: name.clone(),
        };
        let undoing = Definer {
            catalog: definer.service.catalogs.reload().await?,
            ..*definer
        };
        drop(&undoing, &view, true).await?;
        return Err(match failure {
            // Someone changed the table meanwhile, so that all of it is tried again.
            Failure::Stale => Failure::Core(Error::Conflict),
            failure => failure,
        });
    }
    let target = ChangeTarget::Table(name.clone());
    let mut defined = changed(ChangeType::Created, keyspace, target);
    defined.created.push(Resource::Table(QualifiedName {
        keyspace: Some(keyspace.clone()),
        name: name.clone(),
    }));
    Ok(defined)
}

/// Refuses tables that no view can follow.
fn check_base(base: &Relation, name: &str) -> Result<(), Failure> {
    if base.view.is_some() {
        return refuse("Materialized views cannot be created against other materialized views");
    }
    if base.table.options.gc_grace_seconds == 0 {
        return refuse(format!(
            "Cannot create materialized view '{name}' for base table '{}' with gc_grace_seconds \
             of 0, since this value is used to TTL undelivered updates. Setting gc_grace_seconds \
             too low might cause undelivered updates to expire before being replayed.",
            base.table.name
        ));
    }
    Ok(())
}

/// Adds what the table had before.
async fn fill(
    definer: &Definer<'_>,
    keyspace: &str,
    (base, view): (&str, &str),
) -> Result<(), Failure> {
    let catalog = definer.service.catalogs.reload().await?;
    let entry = catalog.keyspace(keyspace)?;
    let (Some(base), Some(view)) = (entry.relation(base), entry.relation(view)) else {
        return Err(Failure::Stale);
    };
    let following = FollowingView::new(view, &base.table, &entry.types)?;
    build_view(&definer.service.store, base, following).await
}

pub(super) async fn alter(
    definer: &Definer<'_>,
    name: &QualifiedName,
    if_exists: bool,
    properties: &Properties,
) -> Done {
    let found = definer.find(name)?;
    let found = found.and_then(|(_, relation)| Some((relation, relation.view.as_ref()?)));
    let Some((relation, view)) = found else {
        let name = definer.full_name(name)?;
        let words = format!("Materialized view '{name}' doesn't exist");
        return nothing_there(if_exists, words);
    };
    let mut view = schema::View::clone(view);
    view.table.options = view.table.options.with(properties)?;
    if view.table.options.gc_grace_seconds == 0 {
        return refuse(
            "Cannot alter gc_grace_seconds of a materialized view to 0, since this value is used \
             to TTL undelivered updates. Setting gc_grace_seconds too low might cause undelivered \
             updates to expire before being replayed.",
        );
    }
    if view.table.options.default_time_to_live > 0 {
        return refuse(
            "Forbidden default_time_to_live detected for a materialized view. Data in a \
             materialized view always expire at the same time than the corresponding data in the \
             parent table. default_time_to_live must be set to zero, see CASSANDRA-12868 for more \
             information",
        );
    }
    let keyspace = view.table.keyspace.clone();
    let wanted = throughput(&view.table)?;
    let is_other = wanted != throughput(&relation.table)?;
    definer
        .replace(relation, &schema::Relation::View(view))
        .await?;
    if is_other {
        let container = place(&keyspace, &name.name);
        let store = &definer.service.store;
        store.provision(&container, wanted).await?;
    }
    let target = ChangeTarget::Table(name.name.clone());
    Ok(changed(ChangeType::Updated, &keyspace, target))
}

pub(super) async fn drop(definer: &Definer<'_>, name: &QualifiedName, if_exists: bool) -> Done {
    if let Some(dropped) = definer.drop_damaged(name).await? {
        return Ok(dropped);
    }
    let found = definer.find(name)?;
    let found = found.and_then(|(entry, relation)| Some((entry, relation.view.as_ref()?)));
    let Some((entry, view)) = found else {
        let name = definer.full_name(name)?;
        let words = format!("Materialized view '{name}' doesn't exist");
        return nothing_there(if_exists, words);
    };
    let keyspace = keyspace_of(name, definer.keyspace)?;
    if let Some(base) = entry.relation(&view.base) {
        let mut views = base.views.clone();
        views.retain(|other| *other != name.name);
        let left = schema::Relation::Table(Table::clone(&base.table), views);
        definer.replace(base, &left).await?;
    }
    let store = &definer.service.store;
    store.drop_container(&place(keyspace, &name.name)).await?;
    let target = ChangeTarget::Table(name.name.clone());
    Ok(changed(ChangeType::Dropped, keyspace, target))
}
