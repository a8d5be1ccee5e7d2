//! Homes and volumes, and the files in them, whether or not a session has them.

use std::pin::Pin;
use std::task::{Context, Poll};

use axum::Json as Answer;
use axum::body::{Body, Bytes, HttpBody};
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use hyper::body::{Frame, SizeHint};
use serde::Deserialize;
use utoipa::IntoParams;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;
use vivarium_api_types::{
    FileList, FilePage, HomeInfo, HomeList, VolumeInfo, VolumeList, VolumeSpec,
};
use vivarium_engine::media;
use vivarium_engine::stores::{StoreDownload, StoreKey};

use super::ApiResult;
use crate::api::auth::Caller;
use crate::api::extract::{FilePath, Id, Json};
use crate::api::query::Params;
use crate::api::untrusted::{self, insert};
use crate::api::{Problem, Shared};

pub(super) fn routes() -> OpenApiRouter<Shared> {
    OpenApiRouter::new()
        .routes(routes!(list_homes))
        .routes(routes!(show_home, delete_home))
        .routes(routes!(list_home_files))
        .routes(routes!(read_home_file, delete_home_file))
        .routes(routes!(list_volumes, make_volume))
        .routes(routes!(show_volume, delete_volume))
        .routes(routes!(list_volume_files))
        .routes(routes!(read_volume_file, delete_volume_file))
}

#[derive(Debug, Clone, Copy, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields, default)]
#[into_params(parameter_in = Query)]
struct ReadParams {
    /// Whether to describe what is at the path, a link not followed, instead of sending its content.
    info: bool,
}

/// List homes
#[utoipa::path(get, path = "/v1/homes", tag = "homes",
    responses((status = 200, body = HomeList), (status = "default", body = Problem)))]
async fn list_homes(State(api): State<Shared>, Caller(tenant): Caller) -> ApiResult<HomeList> {
    Ok(Answer(api.engine.homes(&tenant)?))
}

/// Show a home
#[utoipa::path(get, path = "/v1/homes/{id}", tag = "homes",
    params(("id" = String, Path, description = "The id of its sessions, or `@tenant`")),
    responses((status = 200, body = HomeInfo), (status = "default", body = Problem)))]
async fn show_home(
    State(api): State<Shared>,
    Caller(tenant): Caller,
    Id(id): Id,
) -> ApiResult<HomeInfo> {
    Ok(Answer(api.engine.home(&tenant, &id).await?))
}

/// Remove a home that no session has, with all its files
#[utoipa::path(delete, path = "/v1/homes/{id}", tag = "homes", params(("id" = String, Path, description = "The id of its sessions, or `@tenant`")),
    responses((status = 204), (status = 409, body = Problem),
        (status = "default", body = Problem)))]
async fn delete_home(
    State(api): State<Shared>,
    Caller(tenant): Caller,
    Id(id): Id,
) -> Result<StatusCode, Problem> {
    api.engine.remove_store(&tenant, StoreKey::home(&id)).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// List files of a home
#[utoipa::path(get, path = "/v1/homes/{id}/files", tag = "homes",
    params(("id" = String, Path, description = "The id of its sessions, or `@tenant`"), FilePage),
    responses((status = 200, body = FileList), (status = "default", body = Problem)))]
async fn list_home_files(
    State(api): State<Shared>,
    Caller(tenant): Caller,
    Id(id): Id,
    Params(page): Params<FilePage>,
) -> ApiResult<FileList> {
    Ok(Answer(api.engine.list_stored(&tenant, &StoreKey::home(&id), page).await?))
}

/// Download a file of a home
#[utoipa::path(get, path = "/v1/homes/{id}/files/{*path}", tag = "homes",
    params(("id" = String, Path, description = "The id of its sessions, or `@tenant`"), ("path" = String, Path, description = "Relative to it"), ReadParams),
    responses((status = 200, description = "The content", body = Vec<u8>,
        content_type = "application/octet-stream"), (status = "default", body = Problem)))]
async fn read_home_file(
    State(api): State<Shared>,
    Caller(tenant): Caller,
    FilePath { id, path }: FilePath,
    Params(params): Params<ReadParams>,
) -> Result<Response, Problem> {
    read(&api, &tenant, StoreKey::home(&id), &path, params).await
}

/// Remove a file of a home, or a directory with all that is in it
#[utoipa::path(delete, path = "/v1/homes/{id}/files/{*path}", tag = "homes",
    params(("id" = String, Path, description = "The id of its sessions, or `@tenant`"), ("path" = String, Path, description = "Relative to it")),
    responses((status = 204), (status = "default", body = Problem)))]
async fn delete_home_file(
    State(api): State<Shared>,
    Caller(tenant): Caller,
    FilePath { id, path }: FilePath,
) -> Result<StatusCode, Problem> {
    api.engine.delete_stored(&tenant, &StoreKey::home(&id), &path).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// List volumes
#[utoipa::path(get, path = "/v1/volumes", tag = "homes",
    responses((status = 200, body = VolumeList), (status = "default", body = Problem)))]
async fn list_volumes(State(api): State<Shared>, Caller(tenant): Caller) -> ApiResult<VolumeList> {
    Ok(Answer(api.engine.volumes(&tenant)?))
}

/// Make a volume
#[utoipa::path(post, path = "/v1/volumes", tag = "homes", request_body = VolumeSpec,
    responses((status = 201, body = VolumeInfo), (status = 409, body = Problem),
        (status = "default", body = Problem)))]
async fn make_volume(
    State(api): State<Shared>,
    Caller(tenant): Caller,
    Json(spec, _reserved): Json<VolumeSpec>,
) -> Result<(StatusCode, Answer<VolumeInfo>), Problem> {
    Ok((StatusCode::CREATED, Answer(api.engine.make_volume(&tenant, &spec.name).await?)))
}

/// Show a volume
#[utoipa::path(get, path = "/v1/volumes/{name}", tag = "homes", params(("name" = String, Path, description = "Name of the volume")),
    responses((status = 200, body = VolumeInfo), (status = "default", body = Problem)))]
async fn show_volume(
    State(api): State<Shared>,
    Caller(tenant): Caller,
    Id(name): Id,
) -> ApiResult<VolumeInfo> {
    Ok(Answer(api.engine.volume(&tenant, &name).await?))
}

/// Remove a volume that no session has, with all its files
#[utoipa::path(delete, path = "/v1/volumes/{name}", tag = "homes", params(("name" = String, Path, description = "Name of the volume")),
    responses((status = 204), (status = 409, body = Problem),
        (status = "default", body = Problem)))]
async fn delete_volume(
    State(api): State<Shared>,
    Caller(tenant): Caller,
    Id(name): Id,
) -> Result<StatusCode, Problem> {
    api.engine.remove_store(&tenant, StoreKey::Volume(name)).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// List files of a volume
#[utoipa::path(get, path = "/v1/volumes/{name}/files", tag = "homes",
    params(("name" = String, Path, description = "Name of the volume"), FilePage),
    responses((status = 200, body = FileList), (status = "default", body = Problem)))]
async fn list_volume_files(
    State(api): State<Shared>,
    Caller(tenant): Caller,
    Id(name): Id,
    Params(page): Params<FilePage>,
) -> ApiResult<FileList> {
    Ok(Answer(api.engine.list_stored(&tenant, &StoreKey::Volume(name), page).await?))
}

/// Download a file of a volume
#[utoipa::path(get, path = "/v1/volumes/{name}/files/{*path}", tag = "homes",
    params(("name" = String, Path, description = "Name of the volume"), ("path" = String, Path, description = "Relative to it"), ReadParams),
    responses((status = 200, description = "The content", body = Vec<u8>,
        content_type = "application/octet-stream"), (status = "default", body = Problem)))]
async fn read_volume_file(
    State(api): State<Shared>,
    Caller(tenant): Caller,
    FilePath { id, path }: FilePath,
    Params(params): Params<ReadParams>,
) -> Result<Response, Problem> {
    read(&api, &tenant, StoreKey::Volume(id), &path, params).await
}

/// Remove a file of a volume, or a directory with all that is in it
#[utoipa::path(delete, path = "/v1/volumes/{name}/files/{*path}", tag = "homes",
    params(("name" = String, Path, description = "Name of the volume"), ("path" = String, Path, description = "Relative to it")),
    responses((status = 204), (status = "default", body = Problem)))]
async fn delete_volume_file(
    State(api): State<Shared>,
    Caller(tenant): Caller,
    FilePath { id, path }: FilePath,
) -> Result<StatusCode, Problem> {
    api.engine.delete_stored(&tenant, &StoreKey::Volume(id), &path).await?;
    Ok(StatusCode::NO_CONTENT)
}

async fn read(
    api: &Shared,
    tenant: &str,
    key: StoreKey,
    path: &str,
    params: ReadParams,
) -> Result<Response, Problem> {
    if params.info {
        let info = api.engine.stat_stored(tenant, &key, path).await?;
        return Ok(Answer(info).into_response());
    }
    let download = api.engine.read_stored(tenant, &key, path).await?;
    let mut about = untrusted::headers(path);
    insert(&mut about, header::CONTENT_TYPE, media::of_name(path));
    insert(&mut about, header::CACHE_CONTROL, "no-store");
    Ok((about, Body::new(Content(download))).into_response())
}

/// A file as the body of an answer.
struct Content(StoreDownload);

impl HttpBody for Content {
    type Data = Bytes;
    type Error = std::io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, std::io::Error>>> {
        let chunk = self.0.poll_chunk(context);
        chunk.map(|chunk| chunk.map(|chunk| chunk.map(|bytes| Frame::data(Bytes::from(bytes)))))
    }

    fn is_end_stream(&self) -> bool {
        self.0.left() == 0
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.0.left())
    }
}
