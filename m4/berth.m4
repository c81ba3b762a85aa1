dnl BERTH_WARNINGS: the warnings we build with; --enable-werror (CI) makes them errors.
AC_DEFUN([BERTH_WARNINGS], [
  AC_ARG_ENABLE([werror], [AS_HELP_STRING([--enable-werror], [treat compiler warnings as errors])])
  BERTH_CXXFLAGS="-Wall -Wextra -Wshadow -Wnon-virtual-dtor -Wcast-align -Wformat=2 -Wno-missing-field-initializers"
  AS_IF([test "x$enable_werror" = xyes], [BERTH_CXXFLAGS="$BERTH_CXXFLAGS -Werror"])
  AC_SUBST([BERTH_CXXFLAGS])
])

dnl BERTH_SANITIZERS: --enable-sanitizers=address,undefined or =thread, passed to -fsanitize.
AC_DEFUN([BERTH_SANITIZERS], [
  AC_ARG_ENABLE([sanitizers], [AS_HELP_STRING([--enable-sanitizers=LIST], [address,undefined or thread])],
    [AS_CASE([$enableval],
      [no], [BERTH_SANITIZE=],
      [yes], [BERTH_SANITIZE="-fsanitize=address,undefined -fno-sanitize-recover=undefined -fno-omit-frame-pointer"],
      [BERTH_SANITIZE="-fsanitize=$enableval -fno-omit-frame-pointer"
       AS_CASE([$enableval], [*undefined*], [BERTH_SANITIZE="$BERTH_SANITIZE -fno-sanitize-recover=undefined"])])])
  AC_SUBST([BERTH_SANITIZE])
])

dnl BERTH_FUZZERS: --enable-fuzzers builds the harnesses in test/fuzz with libFuzzer and the sanitizers, which takes clang.
AC_DEFUN([BERTH_FUZZERS], [
  AC_ARG_ENABLE([fuzzers], [AS_HELP_STRING([--enable-fuzzers], [build the fuzzing harnesses of test/fuzz, with CXX=clang++])])
  AM_CONDITIONAL([FUZZERS], [test "x$enable_fuzzers" = xyes])
  AS_IF([test "x$enable_fuzzers" = xyes], [
    BERTH_SANITIZE="-fsanitize=address,undefined,fuzzer-no-link -fno-sanitize-recover=undefined -fno-omit-frame-pointer"
    FUZZ_LIBS=-fsanitize=fuzzer
    AC_MSG_CHECKING([whether $CXX has libFuzzer])
    berth_save_CXXFLAGS=$CXXFLAGS; CXXFLAGS="$CXXFLAGS -fsanitize=fuzzer"
    AC_LINK_IFELSE([AC_LANG_SOURCE([[extern "C" int LLVMFuzzerTestOneInput(const unsigned char *, unsigned long) { return 0; }]])],
      [AC_MSG_RESULT([yes])],
      [AC_MSG_RESULT([no])
       AC_MSG_ERROR([the fuzzers need clang with libFuzzer. Install clang-14 and libclang-rt-14-dev (Debian 12) and configure with CXX=clang++-14.])])
    CXXFLAGS=$berth_save_CXXFLAGS])
  AC_SUBST([FUZZ_LIBS])
])

dnl BERTH_LEAN_PLUGIN: whether a shared object can hold what it needs of the C++ library, instead of having it loaded. Not with sanitizers, which
dnl want to see all of it; without the static library (libstdc++-static on some systems) the plugin is the same, but slower to load.
AC_DEFUN([BERTH_LEAN_PLUGIN], [
  lean_plugin=no
  AS_IF([test -z "$BERTH_SANITIZE"], [
    AC_CACHE_CHECK([whether a plugin can hold its part of the C++ library], [berth_cv_lean_plugin], [
      berth_save_LDFLAGS=$LDFLAGS; berth_save_CXXFLAGS=$CXXFLAGS
      CXXFLAGS="$CXXFLAGS -fPIC"; LDFLAGS="$LDFLAGS -shared -static-libstdc++ -static-libgcc -Wl,-z,defs"
      AC_LINK_IFELSE([AC_LANG_SOURCE([[#include <string>
        extern "C" int f(const char *text) { try { return std::string(text).at(1); } catch (...) { return 0; } }]])],
        [berth_cv_lean_plugin=yes], [berth_cv_lean_plugin=no])
      LDFLAGS=$berth_save_LDFLAGS; CXXFLAGS=$berth_save_CXXFLAGS])
    lean_plugin=$berth_cv_lean_plugin])
  AM_CONDITIONAL([LEAN_PLUGIN], [test "$lean_plugin" = yes])
])

dnl BERTH_RAPIDCHECK: the library behind the tests with generated input, which brings no .pc file. Without it those tests are not built;
dnl --with-rapidcheck (CI) makes that an error.
AC_DEFUN([BERTH_RAPIDCHECK], [
  AC_ARG_WITH([rapidcheck], [AS_HELP_STRING([--with-rapidcheck], [fail unless the tests with generated input can be built])])
  have_rapidcheck=no
  AS_IF([test "x$with_rapidcheck" != xno], [
    AC_CACHE_CHECK([for RapidCheck], [berth_cv_rapidcheck], [
      berth_save_LIBS=$LIBS; LIBS="$LIBS -lrapidcheck"
      AC_LINK_IFELSE([AC_LANG_PROGRAM([@%:@include <rapidcheck.h>], [[return rc::check([](int) {}) ? 0 : 1;]])],
        [berth_cv_rapidcheck=yes], [berth_cv_rapidcheck=no])
      LIBS=$berth_save_LIBS])
    have_rapidcheck=$berth_cv_rapidcheck])
  AS_IF([test "x$with_rapidcheck" = xyes -a "$have_rapidcheck" = no],
    [AC_MSG_ERROR([RapidCheck was not found. Install librapidcheck-dev (Debian, Ubuntu), or leave --with-rapidcheck out.])])
  RAPIDCHECK_LIBS=-lrapidcheck
  AC_SUBST([RAPIDCHECK_LIBS])
  AM_CONDITIONAL([HAVE_RAPIDCHECK], [test "$have_rapidcheck" = yes])
])

dnl BERTH_SLURM: finds Slurm's headers and libslurm as Debian's and SchedMD's packages install them, and where plugins go.
AC_DEFUN([BERTH_SLURM], [
  AC_ARG_WITH([slurm], [AS_HELP_STRING([--with-slurm=PREFIX], [where Slurm is installed, when not in the usual place])])
  AC_ARG_WITH([slurm-plugin-dir], [AS_HELP_STRING([--with-slurm-plugin-dir=DIR], [Slurm's PluginDir])])
  AS_IF([test -n "$with_slurm" -a "x$with_slurm" != xyes],
    [SLURM_CFLAGS="-I$with_slurm/include"
     SLURM_LIBS="-L$with_slurm/lib -L$with_slurm/lib64 -lslurm"],
    [PKG_CHECK_MODULES([SLURM], [slurm], [:], [SLURM_CFLAGS= SLURM_LIBS=-lslurm])])
  berth_save_CPPFLAGS=$CPPFLAGS; berth_save_LIBS=$LIBS
  CPPFLAGS="$CPPFLAGS $SLURM_CFLAGS"; LIBS="$LIBS $SLURM_LIBS"
  AC_CHECK_HEADERS([slurm/slurm.h slurm/slurm_errno.h slurm/spank.h], [],
    [AC_MSG_ERROR([Slurm's headers were not found. Install libslurm-dev (Debian, Ubuntu) or slurm-devel (SchedMD's RPMs), or name Slurm's prefix with --with-slurm=PREFIX.])])
  AC_CACHE_CHECK([for the version of Slurm], [berth_cv_slurm_version], [
    AC_PREPROC_IFELSE([AC_LANG_PROGRAM([@%:@include <slurm/slurm_version.h>
@%:@ifndef SLURM_VERSION_NUMBER
@%:@error none
@%:@endif])], [], [AC_MSG_ERROR([slurm/slurm_version.h says no version: these headers are not Slurm's own. Install libslurm-dev or slurm-devel.])])
    berth_cv_slurm_version=`printf '#include <slurm/slurm_version.h>\nberth: SLURM_VERSION_NUMBER\n' |
      $CXX -x c++ -E -P $CPPFLAGS - | sed -n 's/^berth: *0x\(.*\)$/\1/p'`
    berth_hex=$berth_cv_slurm_version
    berth_cv_slurm_version=`printf '%d.%02d.%d' 0x${berth_hex%????} 0x\`echo $berth_hex | sed 's/..\(..\)../\1/'\` 0x${berth_hex#????}`])
  SLURM_VERSION=$berth_cv_slurm_version
  AS_CASE([$SLURM_VERSION],
    [22.05.*|23.02.*|23.11.*|24.05.*|24.11.*|25.05.*|25.11.*|26.05.*], [],
    [AC_MSG_ERROR([Berth does not know Slurm $SLURM_VERSION yet: it supports 22.05 to 26.05. A plugin built for an unknown version could stop slurmctld from starting, so nothing is built.])])
  AC_CHECK_LIB([slurm], [slurm_allocate_resources], [:],
    [AC_MSG_ERROR([libslurm cannot be linked. Install libslurm-dev (Debian, Ubuntu) or slurm-devel (SchedMD's RPMs), or name Slurm's prefix with --with-slurm=PREFIX.])])
  CPPFLAGS=$berth_save_CPPFLAGS; LIBS=$berth_save_LIBS
  AC_MSG_CHECKING([for Slurm's plugin directory])
  slurmplugindir=$with_slurm_plugin_dir
  AS_IF([test -z "$slurmplugindir"], [
    for berth_dir in ${with_slurm:+"$with_slurm/lib64/slurm" "$with_slurm/lib/slurm"} \
        /usr/lib/*-linux-gnu/slurm-wlm /usr/lib64/slurm /usr/lib/*-linux-gnu/slurm /usr/lib/slurm; do
      AS_IF([test -d "$berth_dir"], [slurmplugindir=$berth_dir; break])
    done
    slurmplugindir=${slurmplugindir:-'$(libdir)/slurm'}])
  AS_CASE([$slurmplugindir], [/usr/*], [AS_IF([test "x$prefix" != x/usr -a "x$with_slurm_plugin_dir" = x], [slurmplugindir='$(libdir)/'${slurmplugindir##*/}])])
  AC_MSG_RESULT([$slurmplugindir])
  AC_SUBST([slurmplugindir])
  AC_SUBST([SLURM_VERSION])
  AC_SUBST([SLURM_CFLAGS])
  AC_SUBST([SLURM_LIBS])
])
