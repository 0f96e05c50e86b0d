# syntax=docker/dockerfile:1
# One file for amd64, arm64, s390x and loong64, for docker buildx and for buildah: see `make images`.
#
# Everything is made on the builder's own architecture and copied in: nothing is emulated, and no base image of the
# target architecture is needed (for loong64 there is no official one).

# The builder: Debian forky with apt, Python 3.14 and pip; deploy/base/builder.sh makes one where none can be pulled.
ARG BUILDER=docker.io/library/debian:forky-slim
# What the result stands on: nothing but Debian packages, or an image of yours that has what deploy/base/root.py names.
ARG BASE=scratch

FROM --platform=$BUILDPLATFORM ${BUILDER} AS tools
ENV SEALANE_CACHE=/cache PYTHONDONTWRITEBYTECODE=1 PYTHONPATH=/tools PATH=/tools/bin:/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin
RUN command -v pip3 >/dev/null || { apt-get update && apt-get install -y --no-install-recommends ca-certificates python3-pip; }
COPY deploy/image/build.lock deploy/image/tools.sh deploy/image/with-ca.sh /src/deploy/image/
COPY deploy/cross /src/deploy/cross
# The secret "ca" is for networks whose certificates are signed by an authority of their own.
RUN --mount=type=secret,id=ca sh /src/deploy/image/tools.sh

# Without the commit's date, so that this stage serves many commits.
FROM tools AS packages
ARG TARGETARCH
ARG BASE=scratch
COPY deploy/base /src/deploy/base
RUN if [ "$BASE" = scratch ]; then python3 /src/deploy/base/root.py "$TARGETARCH" /out; else mkdir -p /out; fi

FROM tools AS installed
ARG TARGETARCH
ARG SOURCE_DATE_EPOCH=0
COPY deploy/base /src/deploy/base
COPY pyproject.toml meson.build meson.options README.md LICENSE /src/
COPY engine /src/engine
COPY service /src/service
COPY tests/native /src/tests/native
COPY deploy/image /src/deploy/image
RUN --mount=type=secret,id=ca sh /src/deploy/image/with-ca.sh python3 /src/deploy/image/install.py "$TARGETARCH" /out

FROM ${BASE}
COPY --from=packages /out /
ARG VERSION=0.1.0
ARG REVISION=unknown
ARG CREATED=1970-01-01T00:00:00Z
LABEL org.opencontainers.image.title="Sealane" \
      org.opencontainers.image.description="An encryption service with ChaCha20 and Poly1305 on vector units" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}" \
      org.opencontainers.image.created="${CREATED}"
COPY --from=installed /out/opt /opt
COPY --from=installed --chown=65532:65532 /out/state /var/lib/sealane
ENV PATH=/opt/sealane/bin:/usr/local/bin:/usr/bin:/bin \
    PYTHONPATH=/opt/sealane/lib \
    PYTHONSAFEPATH=1 \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1 \
    LANG=C.UTF-8 \
    HOME=/var/lib/sealane \
    SEALANE_HOST=0.0.0.0
USER 65532:65532
WORKDIR /var/lib/sealane
EXPOSE 8417
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --timeout=5s --start-period=60s CMD ["/usr/bin/python3", "/opt/sealane/healthcheck.py"]
ENTRYPOINT ["/usr/bin/python3", "/opt/sealane/bin/sealane"]
CMD ["serve"]
