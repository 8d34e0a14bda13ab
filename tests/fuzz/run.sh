#!/ usr / bin / env bash
#Fuzzes the front end with libFuzzer : tests / fuzz / run.sh[SECONDS], 60 unless told.Builds the library by clang with
#coverage in build / fuzz.New inputs go to build / fuzz / corpus, \
    what crashes or takes too long to build / fuzz / found.Exits
#with 0 if nothing was found, and, saying so, if there is no clang with libFuzzer.
set - euo pipefail cd "$(dirname " $0 ")/../.." seconds =
${1 : -60} clang = $(command - v clang++ || command - v clang++ - 14 || true) if[-z "$clang"] ||
                   !echo 'extern "C" int LLVMFuzzerTestOneInput(const char*, unsigned long) { return 0; }' |
                       "$clang" - x c++ - fsanitize = fuzzer - -o / dev / null 2 > / dev / null;
then echo "fuzz: skipped: no clang++ with libFuzzer (Debian: clang, libclang-rt-14-dev)" exit 0 fi cmake - S.-
    B build / fuzz - G Ninja - DCMAKE_BUILD_TYPE =
    Release - DCMAKE_CXX_COMPILER =
        "$clang" - DTEGULA_FUZZ =
            ON - DTEGULA_TESTS =
                OFF - DTEGULA_TOOLS =
                    OFF - DTEGULA_TUTORIALS =
                        OFF - DTEGULA_BENCH =
                            OFF >
                            build / fuzz.log cmake-- build build / fuzz-- target front_end_fuzzer mkdir -
                                p build / fuzz / corpus build / fuzz / found exec build / fuzz / front_end_fuzzer -
                                max_total_time =
                                "$seconds" - max_len =
                                    4096 - timeout =
                                        20 - rss_limit_mb =
                                            4096 - dict =
                                                tests / fuzz / words.dict - artifact_prefix =
                                                    build / fuzz / found / build / fuzz / corpus tests /
                                                    fuzz / corpus kernels tests / golden / parser tests / golden /
                                                    language tests / golden / errors tests / golden / decorators
