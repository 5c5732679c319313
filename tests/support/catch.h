// The one include of Catch2: version 2 has its own main in catch_main.cpp.
#pragma once
#include <catch2/catch.hpp>
