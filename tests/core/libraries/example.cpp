// A library of the tests, libdsl_example.so.2, with a version and a function.
extern "C" {
int example_version();
int example_answer(int question);

int example_version() { return 20304; }
int example_answer(int question) { return 2 * question; }
}
