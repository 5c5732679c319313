// An NCCL of the tests, in a folder of its own, that has nothing but its version.
extern "C" {
int ncclGetVersion(int* version);

int ncclGetVersion(int* version) {
  *version = 21903;
  return 0;
}
}
