//! Homes and volumes, and the files in them.

use hyper::Method;
use vivarium_api_types::{
    FileList, FilePage, HomeInfo, HomeList, VolumeInfo, VolumeList, VolumeSpec,
};

use super::{ApiRequest, ApiResponse, Client, ClientError, path};

/// A home by its id, or a volume by its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Store<'a> {
    /// The id of its sessions, or `@tenant`.
    Home(&'a str),
    /// Its name.
    Volume(&'a str),
}

/// Any of these fails with a [`ClientError`]; its `code` is the daemon's reason.
#[expect(clippy::missing_errors_doc, reason = "said above, for all of them")]
impl Client {
    /// The tenant's homes.
    pub async fn list_homes(&mut self) -> Result<HomeList, ClientError> {
        self.call(ApiRequest::new(Method::GET, "/v1/homes")).await
    }

    /// A home, with what it takes of the disk.
    pub async fn home(&mut self, id: &str) -> Result<HomeInfo, ClientError> {
        self.call(ApiRequest::new(Method::GET, &path::store(Store::Home(id)))).await
    }

    /// The tenant's volumes.
    pub async fn list_volumes(&mut self) -> Result<VolumeList, ClientError> {
        self.call(ApiRequest::new(Method::GET, "/v1/volumes")).await
    }

    /// Makes a volume.
    pub async fn create_volume(&mut self, spec: &VolumeSpec) -> Result<VolumeInfo, ClientError> {
        self.json(Method::POST, "/v1/volumes", Some(spec)).await
    }

    /// A volume, with what it takes of the disk.
    pub async fn volume(&mut self, name: &str) -> Result<VolumeInfo, ClientError> {
        self.call(ApiRequest::new(Method::GET, &path::store(Store::Volume(name)))).await
    }

    /// Deletes a home or volume that no session has, with all its files.
    pub async fn delete_store(&mut self, store: Store<'_>) -> Result<(), ClientError> {
        self.call(ApiRequest::new(Method::DELETE, &path::store(store))).await
    }

    /// One page of a directory's entries.
    pub async fn list_stored(
        &mut self,
        store: Store<'_>,
        page: &FilePage,
    ) -> Result<FileList, ClientError> {
        let mut at = path::stored(store, "");
        path::add_page(&mut at, page);
        self.call(ApiRequest::new(Method::GET, &at)).await
    }

    /// The content of a file.
    pub async fn read_stored(
        &mut self,
        store: Store<'_>,
        name: &str,
    ) -> Result<ApiResponse, ClientError> {
        self.open(ApiRequest::new(Method::GET, &path::stored(store, name))).await
    }

    /// Deletes a file, or a directory with everything in it.
    pub async fn delete_stored(&mut self, store: Store<'_>, name: &str) -> Result<(), ClientError> {
        self.call(ApiRequest::new(Method::DELETE, &path::stored(store, name))).await
    }
}
