"""Where the project's own C++ lies, for the checks beside this file."""
FOLDERS = ["core", "kernels", "config", "proto", "cli", "comm", "offload", "model", "optim", "data", "zero",
           "checkpoint", "train", "generate", "rankd", "launcher", "tests"]
SUFFIXES = (".h", ".cpp", ".inl", ".cu", ".cuh")
