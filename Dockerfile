# syntax=docker/dockerfile:1
# Winnow as a small image. Two stages: what builds stays behind, what runs has neither a compiler nor the sources.
#
#   docker build -t winnow .
#   docker run --rm -v "$PWD/in:/in:ro" -v winnow-out:/data winnow replay /in --out out
#
# With a Valkey of its own and several workers: docker-compose.yml.

FROM python:3.12-slim AS build
WORKDIR /src
# Only what the wheel is made of, so that a change of tests or documents does not build it anew.
COPY pyproject.toml README.md ./
COPY config config
COPY crawler crawler
COPY dedup dedup
# The wheels of the dependencies come along: the next stage needs no network. The cache mount is not part of any layer.
RUN --mount=type=cache,target=/root/.cache/pip pip wheel --wheel-dir /wheels .


FROM python:3.12-slim

ARG VERSION=unreleased
ARG REVISION=unknown
LABEL org.opencontainers.image.title="winnow" \
      org.opencontainers.image.description="A crawler-side near-duplicate daemon: keeps what the crawl has not seen" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}" \
      org.opencontainers.image.base.name="docker.io/library/python:3.12-slim"

# Lines reach `docker logs` when they are printed; a read-only root has no place for bytecode (pip has compiled it);
# text is UTF-8 whatever the locale of the host.
ENV PYTHONUNBUFFERED=1 \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUTF8=1

# Mounted, not copied: the wheels would stay in a layer. --no-index: what was built here, never a namesake from PyPI.
RUN --mount=type=bind,from=build,source=/wheels,target=/wheels \
    pip install --no-cache-dir --no-index --find-links=/wheels winnow
COPY --chmod=0755 config/replay-parts /usr/local/bin/replay-parts

# A fixed number, so that the owner of a volume is the same in every build. /data must belong to it before it becomes a
# volume: a new named volume takes over the owner of the folder in the image.
RUN groupadd --system --gid 10001 winnow \
    && useradd --system --uid 10001 --gid 10001 --home-dir /data --no-create-home --shell /usr/sbin/nologin winnow \
    && install --directory --owner=10001 --group=10001 /data
WORKDIR /data
VOLUME /data

# By number, not by name: Kubernetes' runAsNonRoot can only check a number.
USER 10001:10001
ENTRYPOINT ["winnow"]
CMD ["--help"]
