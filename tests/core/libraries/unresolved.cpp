// A library of the tests, libdsl_unresolved.so.1, which calls what no library has.
extern "C" {
int example_function_of_no_library();
int example_answer(int question);

int example_answer(int question) { return question + example_function_of_no_library(); }
}
