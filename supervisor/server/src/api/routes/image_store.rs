//! Images by themselves: listed, deleted, exported and imported.

use axum::Json as Answer;
use axum::body::{Body, Bytes};
use axum::extract::{Request, State};
use axum::http::{Method, StatusCode, header};
use axum::response::{IntoResponse, Response};
use futures_util::stream;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, duplex};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;
use vivarium_api_types::{ExportParams, ImagePage, ImportParams, Page, SessionInfo, StoredImage};
use vivarium_engine::Portable;

use super::ApiResult;
use crate::api::auth::Caller;
use crate::api::body::Pieces;
use crate::api::extract::Id;
use crate::api::query::Params;
use crate::api::{Problem, Shared, untrusted};

/// How much of an image is in memory on its way.
const CHUNK_BYTES: usize = 64 << 10;

pub(super) fn routes() -> OpenApiRouter<Shared> {
    OpenApiRouter::new()
        .routes(routes!(list, import))
        .routes(routes!(show, delete))
        .routes(routes!(export))
}

/// List images: what there is on disk of suspended sessions
#[utoipa::path(get, path = "/v1/images", operation_id = "list_images", tag = "images",
    params(Page), responses((status = 200, body = ImagePage), (status = "default", body = Problem)))]
async fn list(
    State(api): State<Shared>,
    Caller(tenant): Caller,
    Params(page): Params<Page>,
) -> ApiResult<ImagePage> {
    Ok(Answer(api.engine.list_images(&tenant, &page)?))
}

/// Import an image: make a suspended session of one that a host with the same key has exported
#[utoipa::path(post, path = "/v1/images", operation_id = "import_image", tag = "images",
    params(ImportParams),
    request_body(content = Vec<u8>, content_type = "application/octet-stream",
        description = "An image as it was exported; of any media type"),
    responses((status = 201, body = SessionInfo), (status = "default", body = Problem)))]
async fn import(
    State(api): State<Shared>,
    Caller(tenant): Caller,
    Params(params): Params<ImportParams>,
    request: Request,
) -> Result<Response, Problem> {
    let (parts, body) = request.into_parts();
    let mut body = Pieces::of(&parts.extensions, body);
    let (mut to, mut from) = duplex(CHUNK_BYTES);
    let sending = async {
        while let Some(data) = body.next().await? {
            if to.write_all(&data).await.is_err() {
                break; // Nobody reads: the importing end says why.
            }
        }
        drop(to);
        Ok::<_, Problem>(())
    };
    let importing = async {
        let imported = api.engine.import_image(&tenant, params, &mut from).await;
        drop(from);
        imported
    };
    let (sent, imported) = tokio::join!(sending, importing);
    if sent.is_ok() {
        body.drain().await;
    }
    let session = match (sent, imported) {
        (Err(problem), _) => return Err(problem),
        (Ok(()), imported) => imported?,
    };
    let location = [(header::LOCATION, format!("/v1/sessions/{}", session.id))];
    Ok((StatusCode::CREATED, location, Answer(session)).into_response())
}

/// Show the image of a suspended session
#[utoipa::path(get, path = "/v1/images/{id}", operation_id = "show_image", tag = "images",
    params(("id" = String, Path)),
    responses((status = 200, body = StoredImage), (status = "default", body = Problem)))]
async fn show(
    State(api): State<Shared>,
    Caller(tenant): Caller,
    Id(id): Id,
) -> ApiResult<StoredImage> {
    Ok(Answer(api.engine.image(&tenant, &id)?))
}

/// Delete the image of a suspended session, and so the session
#[utoipa::path(delete, path = "/v1/images/{id}", operation_id = "delete_image", tag = "images",
    params(("id" = String, Path)),
    responses((status = 204), (status = "default", body = Problem)))]
async fn delete(
    State(api): State<Shared>,
    Caller(tenant): Caller,
    Id(id): Id,
) -> Result<StatusCode, Problem> {
    api.engine.remove_image(&tenant, &id).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Export the image of a suspended session, or a checkpoint
#[utoipa::path(get, path = "/v1/images/{id}/export", operation_id = "export_image", tag = "images",
    params(("id" = String, Path), ExportParams),
    responses((status = 200, body = Vec<u8>, content_type = "application/x-tar",
            description = "The image, encrypted, for hosts that have the same key"),
        (status = "default", body = Problem)))]
async fn export(
    State(api): State<Shared>,
    Caller(tenant): Caller,
    Id(id): Id,
    Params(params): Params<ExportParams>,
    method: Method,
) -> Result<Response, Problem> {
    let Portable { bytes, reader } = api.engine.export_image(&tenant, &id, params).await?;
    let parts = stream::try_unfold(reader, |mut reader| async {
        let mut chunk = Vec::with_capacity(CHUNK_BYTES);
        let read = reader.read_buf(&mut chunk).await?;
        Ok::<_, std::io::Error>((read > 0).then(|| (Bytes::from(chunk), reader)))
    });
    let mut about = untrusted::headers(&format!("{id}.tar"));
    untrusted::insert(&mut about, header::CONTENT_TYPE, "application/x-tar");
    untrusted::insert(&mut about, header::CONTENT_LENGTH, bytes.to_string());
    let body = if method == Method::HEAD { Body::empty() } else { Body::from_stream(parts) };
    Ok((about, body).into_response())
}
