//! Files of a session. Content is streamed both ways and never held here as a whole.

use axum::Json as Answer;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, Method, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Deserialize;
use utoipa::IntoParams;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;
use vivarium_api_types::{FileChange, FileInfo, FileList, FilePage, FilesWritten};
use vivarium_engine::EngineError;
use vivarium_engine::session::transfer::{ArchiveDownload, Download, Uploaded};

use super::ApiResult;
use crate::api::auth::Caller;
use crate::api::extract::{FilePath, Id, Json};
use crate::api::query::Params;
use crate::api::{Problem, Shared};

mod conditional;
mod content;
mod headers;
mod receive;

use conditional::{ByteRange, ConditionalRequest, Decision, Version};
use content::Content;

/// How often a file that changes while it is opened is opened again.
const ATTEMPTS: usize = 4;

pub(super) fn routes() -> OpenApiRouter<Shared> {
    OpenApiRouter::new()
        .routes(routes!(list, upload_all))
        .routes(routes!(download, upload, change, delete))
}

#[derive(Debug, Clone, Copy, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields, default)]
#[into_params(parameter_in = Query)]
struct WriteParams {
    /// Whether it is a tar archive to be unpacked into the directory at the path.
    unpack: bool,
    /// Whether to make a directory. There is no body then.
    directory: bool,
}

#[derive(Debug, Clone, Copy, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields, default)]
#[into_params(parameter_in = Query)]
struct ReadParams {
    /// Whether to describe what is at the path, a link not followed, instead of sending its content.
    info: bool,
}

/// List files
#[utoipa::path(get, path = "/v1/sessions/{id}/files", operation_id = "list_files", tag = "files",
    params(("id" = String, Path), FilePage),
    responses((status = 200, body = FileList), (status = "default", body = Problem)))]
async fn list(
    State(api): State<Shared>,
    Caller(tenant): Caller,
    Id(id): Id,
    Params(page): Params<FilePage>,
) -> ApiResult<FileList> {
    Ok(Answer(api.engine.list_files(&tenant, &id, page).await?))
}

/// Download a file, one range of it, or a directory as a tar archive
#[utoipa::path(get, path = "/v1/sessions/{id}/files/{*path}", tag = "files",
    params(("id" = String, Path), ("path" = String, Path, description = "Relative to the workdir, or absolute"),
        ReadParams,
        ("Range" = Option<String>, Header, description = "One range of bytes"),
        ("If-Range" = Option<String>, Header), ("If-None-Match" = Option<String>, Header)),
    responses(
        (status = 200, description = "The content, or its description", content(
            (FileInfo = "application/json"), (Vec<u8> = "*/*"), (Vec<u8> = "application/x-tar"))),
        (status = 206, description = "The range", content_type = "*/*"),
        (status = 304, description = "It has not changed"),
        (status = 416, body = Problem), (status = "default", body = Problem)))]
async fn download(
    State(api): State<Shared>,
    Caller(tenant): Caller,
    FilePath { id, path }: FilePath,
    Params(params): Params<ReadParams>,
    method: Method,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    if params.info {
        return Ok(Answer(api.engine.stat_file(&tenant, &id, &path).await?).into_response());
    }
    let is_head = method == Method::HEAD;
    let conditional = ConditionalRequest::new(&headers, is_head);
    let opened = open(&api, &tenant, &id, &path, &conditional, is_head).await?;
    let (decision, reading) = match opened {
        Opened::File(decision, reading) => (decision, reading),
        Opened::Directory(archive) => {
            let about = headers::of_archive(&archive.entry().path);
            let body = if is_head { Body::empty() } else { content::of_archive(archive) };
            return Ok((about, body).into_response());
        }
    };
    let entry = reading.entry();
    let (size, version) = (entry.size_bytes, Version::of(entry));
    let (status, range) = match decision {
        Decision::NotModified => {
            let validators = headers::validators(&version);
            return Ok((StatusCode::NOT_MODIFIED, validators).into_response());
        }
        Decision::Unsatisfiable => {
            let detail = format!("{path:?} has {size} bytes");
            let status = StatusCode::RANGE_NOT_SATISFIABLE;
            let problem = Problem::new(status, "range_not_satisfiable", detail);
            let range = [(header::CONTENT_RANGE, format!("bytes */{size}"))];
            return Ok((range, problem).into_response());
        }
        Decision::Send(range) if range.is_part => (StatusCode::PARTIAL_CONTENT, range),
        Decision::Send(range) => (StatusCode::OK, range),
    };
    let about = headers::of_content(&path, &range, size);
    let body = if is_head { Body::empty() } else { Body::new(Content::new(reading)) };
    Ok((status, headers::validators(&version), about, body).into_response())
}

enum Opened {
    File(Decision, Download),
    Directory(ArchiveDownload),
}

/// Opens the requested range. Which range that is depends on the size of the open file, so it may
/// take several attempts.
async fn open(
    api: &Shared,
    tenant: &str,
    id: &str,
    path: &str,
    conditional: &ConditionalRequest,
    is_head: bool,
) -> Result<Opened, Problem> {
    let mut wanted = conditional.first_guess();
    for _ in 0..ATTEMPTS {
        let (offset, length) = if is_head { (0, Some(0)) } else { wanted };
        let reading = match api.engine.read_file(tenant, id, path, offset, length).await {
            Err(refused @ EngineError::NotAFile { .. }) => {
                let archive = api.engine.read_archive(tenant, id, path).await;
                return archive.map(Opened::Directory).map_err(|_| refused.into());
            }
            reading => reading?,
        };
        let decision =
            conditional.decide(&Version::of(reading.entry()), reading.entry().size_bytes);
        let Decision::Send(ByteRange { start, length, .. }) = decision else {
            return Ok(Opened::File(decision, reading));
        };
        if is_head || (start, length) == (offset, reading.length()) {
            return Ok(Opened::File(decision, reading));
        }
        wanted = (start, Some(length));
    }
    let detail = format!("{path:?} is changing all the time");
    Err(Problem::new(StatusCode::CONFLICT, "file_refused", detail))
}

/// Upload a file, unpack a tar archive, or make a directory
#[utoipa::path(put, path = "/v1/sessions/{id}/files/{*path}", tag = "files",
    params(("id" = String, Path), ("path" = String, Path, description = "Relative to the workdir, or absolute"),
        WriteParams),
    request_body(content = Vec<u8>, content_type = "application/octet-stream",
        description = "The content; a tar archive as application/x-tar where it is unpacked"),
    responses((status = 200, body = FilesWritten, description = "Replaced, or unpacked"),
        (status = 201, body = FilesWritten, description = "Made"),
        (status = 413, body = Problem), (status = 507, body = Problem),
        (status = "default", body = Problem)))]
async fn upload(
    State(api): State<Shared>,
    Caller(tenant): Caller,
    FilePath { id, path }: FilePath,
    Params(params): Params<WriteParams>,
    request: Request,
) -> Result<(StatusCode, Answer<FilesWritten>), Problem> {
    write(&api, &tenant, &id, path, params, request).await
}

/// Unpack a tar archive into the workdir
#[utoipa::path(put, path = "/v1/sessions/{id}/files", tag = "files",
    params(("id" = String, Path), WriteParams),
    request_body(content = Vec<u8>, content_type = "application/x-tar"),
    responses((status = 200, body = FilesWritten), (status = "default", body = Problem)))]
async fn upload_all(
    State(api): State<Shared>,
    Caller(tenant): Caller,
    Id(id): Id,
    Params(params): Params<WriteParams>,
    request: Request,
) -> Result<(StatusCode, Answer<FilesWritten>), Problem> {
    write(&api, &tenant, &id, String::new(), params, request).await
}

async fn write(
    api: &Shared,
    tenant: &str,
    id: &str,
    path: String,
    params: WriteParams,
    request: Request,
) -> Result<(StatusCode, Answer<FilesWritten>), Problem> {
    let (parts, body) = request.into_parts();
    let mut body = receive::Incoming::new(&parts, body);
    let result = async {
        if params.directory {
            if params.unpack || body.announced().is_some_and(|bytes| bytes > 0) {
                let detail = "a directory is made without a body, and nothing is unpacked";
                let status = StatusCode::BAD_REQUEST;
                return Err(Problem::new(status, "invalid_query", detail));
            }
            let (path, is_new) = api.engine.make_directory(tenant, id, &path).await?;
            let status = if is_new { StatusCode::CREATED } else { StatusCode::OK };
            return Ok((status, path, Uploaded { files: 0, bytes: 0 }));
        }
        receive::check(&parts.headers, params.unpack)?;
        if params.unpack {
            let upload = api.engine.unpack_files(tenant, id, &path).await?;
            let path = upload.path().to_owned();
            return Ok((StatusCode::OK, path, body.copy_to(upload).await?));
        }
        // Most refusals happen here, before any of the body is read.
        let before = api.engine.stat_file(tenant, id, &path).await;
        let is_new = matches!(before, Err(EngineError::UnknownFile(_)));
        let status = if is_new { StatusCode::CREATED } else { StatusCode::OK };
        let announced = body.announced();
        let upload = api.engine.write_file(tenant, id, &path, announced).await?;
        let path = upload.path().to_owned();
        Ok((status, path, body.copy_to(upload).await?))
    };
    match result.await {
        Ok((status, path, written)) => {
            let (files, size_bytes) = (written.files, written.bytes);
            Ok((status, Answer(FilesWritten { path, files, size_bytes })))
        }
        Err(problem) => {
            body.drain().await;
            Err(problem)
        }
    }
}

/// Move a file, directory or link, or change its permissions
#[utoipa::path(patch, path = "/v1/sessions/{id}/files/{*path}", operation_id = "change_file", tag = "files",
    params(("id" = String, Path),
        ("path" = String, Path, description = "Relative to the workdir, or absolute")),
    request_body = FileChange,
    responses((status = 200, body = FileInfo, description = "What it is now"),
        (status = 409, body = Problem), (status = "default", body = Problem)))]
async fn change(
    State(api): State<Shared>,
    Caller(tenant): Caller,
    FilePath { id, path }: FilePath,
    Json(change, _reserved): Json<FileChange>,
) -> ApiResult<FileInfo> {
    Ok(Answer(api.engine.change_file(&tenant, &id, &path, change).await?))
}

/// Remove a file, or a directory with all that is in it
#[utoipa::path(delete, path = "/v1/sessions/{id}/files/{*path}",
    operation_id = "delete_file", tag = "files",
    params(("id" = String, Path), ("path" = String, Path, description = "Relative to the workdir, or absolute")),
    responses((status = 204), (status = "default", body = Problem)))]
async fn delete(
    State(api): State<Shared>,
    Caller(tenant): Caller,
    FilePath { id, path }: FilePath,
) -> Result<StatusCode, Problem> {
    api.engine.delete_file(&tenant, &id, &path).await?;
    Ok(StatusCode::NO_CONTENT)
}
