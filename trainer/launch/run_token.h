// The run's token: who knows it belongs to the run. It is never sent, shown or written where others may read; ranks
// prove to each other that they know it. What it protects, and what not: docs/trust.md.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "trainer/config/config.h"
#include "trainer/launch/launch.h"

namespace dtrain::launch {

// For those who do not want it in the command line, which every user of the machine can read.
constexpr const char* kTokenVariable = "DTRAIN_RUN_TOKEN";

// --run_token, or the variable; empty where neither says one.
std::string GivenToken(const config::RanksConfig& ranks, const Environment& environment);

// 128 random bits from the system, as 32 digits.
std::string RandomToken();

// HMAC-SHA256 of `parts` (each with its length) by the token: 64 digits. An empty token proves nothing.
std::string Proof(const std::string& token, const std::vector<std::string_view>& parts);

// Compares in a time that does not depend on where they differ.
bool SameProof(std::string_view one, std::string_view other);

}  // namespace dtrain::launch
