// The versions of Kubernetes against whose types the tests check the manifests. go.sum lists them,
// one patch release of each minor version. No module can require several versions of client-go, so
// this one requires none, and `go mod tidy` would empty go.sum.
module prophet.dev/tests/control-plane/schemas

go 1.26.0
