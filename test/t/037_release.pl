# What a release says about itself: META.json by the rules of PGXN's meta spec,
# version 1.0.0, with files that exist, and one version everywhere.  Needs no
# server.
#
# Majors: one

use strict;
use warnings;
use FindBin;

use JSON::PP ();
use PostgreSQL::Test::Utils;
use Test::More;

my $top = "$FindBin::RealBin/../..";
my $JSON = JSON::PP->new->utf8;

# --- The rules

my $SEMVER = qr/(?:0|[1-9]\d*)(?:\.(?:0|[1-9]\d*)){2}(?:-[0-9A-Za-z][-0-9A-Za-z.]*)?/;
my $RANGE = qr/(?:(?:[<>]=?|[=!]=)\s*)?(?:$SEMVER|0)/;
my $URL = qr{^[a-z][-a-z0-9+.]*://[^/]}i;
my @LICENSES = qw(agpl_3 apache_1_1 apache_2_0 artistic_1 artistic_2 bsd freebsd gfdl_1_2 gfdl_1_3 gpl_1 gpl_2 gpl_3
  lgpl_2_1 lgpl_3_0 mit mozilla_1_0 mozilla_1_1 openssl perl_5 postgresql qpl_1_0 ssleay sun zlib open_source
  restricted unrestricted unknown);

my $string = qr/./s;
my $term = qr{^[^\s/\\[:cntrl:]]{2,}$};
my $version = qr/^$SEMVER$/;

# A rule is a pattern for a string, [ rule ] for a string or a list, or a map of
# keys, where "+" is what must be there and "*" stands for any other key.
my %RULE = (
	'+name'           => $term,
	'+version'        => $version,
	'+abstract'       => $string,
	'+maintainer'     => [$string],
	'+license'        => [ do { my $names = join('|', @LICENSES); qr/^(?:$names)$/ } ],
	'+meta-spec'      => { '+version' => qr/^1\.0\.0$/, 'url' => $URL },
	'+provides'       => { '*' => { '+file' => $string, '+version' => $version, 'abstract' => $string, 'docfile' => $string } },
	'description'     => $string,
	'generated_by'    => $string,
	'release_status'  => qr/^(?:stable|testing|unstable)$/,
	'tags'            => [qr{^[^/\\[:cntrl:]]{1,255}$}],
	'no_index'        => { 'file' => [$string], 'directory' => [$string] },
	'prereqs'         => {
		map {
			$_ => { map { $_ => { '*' => qr/^$RANGE(?:,\s*$RANGE)*$/ } } qw(requires recommends suggests conflicts) }
		} qw(configure build test runtime develop)
	},
	'resources'       => {
		'homepage'   => $URL,
		'bugtracker' => { 'web' => $URL, 'mailto' => qr/@/ },
		'repository' => { 'web' => $URL, 'url' => $URL, 'type' => qr/^[^A-Z]+$/ },
	});

# What is wrong with a value, in words; nothing if it keeps the rule.
sub violations
{
	my ($rule, $value, $where) = @_;

	return "$where is missing" unless defined $value;
	if (ref $rule eq 'ARRAY')
	{
		my @list = ref $value eq 'ARRAY' ? @$value : ($value);

		return "$where is empty" unless @list;
		return map { violations($rule->[0], $_, $where) } @list;
	}
	if (ref $rule eq 'HASH')
	{
		return "$where is no object" if ref $value ne 'HASH';
		return (
			(map { /^\+(.*)/ && !defined $value->{$1} ? "$where/$1 is missing" : () } sort keys %$rule),
			map {
				my $rule_of_key = $rule->{"+$_"} // $rule->{$_} // ($_ =~ $term ? $rule->{'*'} : undef);
				/^x_/i       ? ()
				: $rule_of_key ? violations($rule_of_key, $value->{$_}, "$where/$_")
				:                "$where/$_ is not a key that the spec knows"
			} sort keys %$value);
	}
	return ref $value || $value !~ $rule ? "$where cannot be " . $JSON->canonical->allow_nonref->encode($value) : ();
}

my $text = slurp_file("$top/META.json");
my $meta = $JSON->decode($text);
is(join("\n", violations(\%RULE, $meta, '')), '', 'META.json keeps the rules of the spec');

# Would it be seen if it did not?
for (
	[ '/name is missing'                 => sub { delete $_[0]{name} } ],
	[ '/name cannot be "snow flake"'     => sub { $_[0]{name} = 'snow flake' } ],
	[ '/version cannot be "1.1"'         => sub { $_[0]{version} = '1.1' } ],
	[ '/version cannot be "01.1.0"'      => sub { $_[0]{version} = '01.1.0' } ],
	[ '/license cannot be "PostgreSQL"'  => sub { $_[0]{license} = 'PostgreSQL' } ],
	[ '/maintainer is empty'             => sub { $_[0]{maintainer} = [] } ],
	[ '/release_status cannot be "beta"' => sub { $_[0]{release_status} = 'beta' } ],
	[ '/author is not a key that the spec knows' => sub { $_[0]{author} = 'somebody' } ],
	[ '/tags cannot be "a/b"'            => sub { push @{ $_[0]{tags} }, 'a/b' } ],
	[ '/provides/snowflake/file is missing' => sub { delete $_[0]{provides}{snowflake}{file} } ],
	[ '/prereqs/running is not a key that the spec knows' => sub { $_[0]{prereqs}{running} = {} } ],
	[ '/prereqs/runtime/requires/PostgreSQL cannot be "15"' => sub { $_[0]{prereqs}{runtime}{requires}{PostgreSQL} = '15' } ],
	[ '/resources/homepage cannot be "here"' => sub { $_[0]{resources}{homepage} = 'here' } ],
	[ ''                                 => sub { $_[0]{x_note} = 'free'; $_[0]{prereqs}{runtime}{requires}{plpgsql} = '0' } ])
{
	my ($expected, $change) = @$_;
	my $changed = $JSON->decode($text);

	$change->($changed);
	is(join("\n", violations(\%RULE, $changed, '')), $expected, $expected ? "seen: $expected" : 'what is allowed is allowed');
}

# --- What it names is there

ok(-f "$top/$_", "$_ exists") for map { grep { defined } @$_{qw(file docfile)} } values %{ $meta->{provides} };
is(join(' ', sort keys %{ $meta->{provides} }), 'snowflake snowflake_plain snowflake_registry', 'it provides the extensions');
for my $name (sort keys %{ $meta->{provides} })
{
	my $extension = $meta->{provides}{$name};
	my %control = slurp_file("$top/$name.control") =~ /^(\w+) = '?([^'\n]*)/mg;

	is($extension->{abstract}, $control{comment}, "$name: with the comment of the control file");
	is($extension->{version}, $meta->{version}, "$name: of the version of its distribution");
	my ($first) = ("$extension->{file}\n" . slurp_file("$top/Makefile")) =~ m{^(?:DATA_built \+?= )?sql/$name--([^-]+)\.sql$}m;
	my %ways = map { m{/$name--(.+)--(.+)\.sql$} ? ($1 => $2) : () } glob("$top/sql/*.sql");
	my $last = $first;
	$last = $ways{$last} while defined $last && $last ne $control{default_version} && $ways{$last};
	is($last, $control{default_version}, "$name: the script that make makes, or that is there, is the one with which CREATE EXTENSION begins");
}

# --- One version.  The SQL has two numbers, and a release three.

my $release = $meta->{version};
my ($sql) = $release =~ /^(\d+\.\d+)\./;
for (
	[ 'CHANGELOG.md'                  => qr/^## (\S+)/m ],
	[ 'debian/changelog'              => qr/\A\S+ \((\S+)-\d+\)/ ],
	[ 'rpm/postgresql-snowflake.spec' => qr/^Version:\s+(\S+)$/m ],
	[ 'rpm/postgresql-snowflake.spec' => qr/^%changelog\n.* - (\S+)-\d+$/m ],
	[ 'snowflake.control'             => qr/^default_version = '(.*)'$/m, $sql ],
	[ 'snowflake_plain.control'       => qr/^default_version = '(.*)'$/m, $sql ],
	[ 'snowflake_registry.control'    => qr/^default_version = '(.*)'$/m, $sql ],
	[ 'src/compat.h'                  => qr/\.version = "([^"]+)"/, $sql ])
{
	my ($name, $pattern, $expected) = @$_;

	is((slurp_file("$top/$name") =~ $pattern)[0], $expected // $release, "$name is of that version");
}

# what is released is "stable", and says so everywhere
my ($heading) = slurp_file("$top/CHANGELOG.md") =~ /^## (.*)$/m;
my $status = $heading =~ /unreleased/ ? 'not released' : 'released';
is($meta->{release_status} eq 'stable' ? 'released' : 'not released', $status, 'META.json and CHANGELOG.md agree whether it is released');
is(slurp_file("$top/CHANGELOG.md") =~ /^### Before \Q$release\E is released$/m ? 'not released' : 'released', $status, 'and CHANGELOG.md says what is left as long as it is not released');
is(slurp_file("$top/debian/changelog") =~ /\A.*\) UNRELEASED;/ ? 'not released' : 'released', $status, 'and so does debian/changelog');

# --- Nothing is left for somebody else to fill in.  The project has no public
# --- address: where a field needs one, it is in .invalid, where none exists.

for my $name ('README.md', 'META.json', 'LICENSE', glob("$top/debian/{changelog,control,control.in,copyright} $top/rpm/*.spec"))
{
	my $path = $name =~ m{^/} ? $name : "$top/$name";
	my @left = slurp_file($path) =~ m{(\bADDRESS\b|\bTODO\b|\bFIXME\b|\bYOUR[-_ ]?NAME\b|\S+@(?!\S+\.invalid\b)\S+|https?://\S*example\S*)}g;

	is("@left", '', $path =~ s{^\Q$top\E/}{}r . ' has no placeholder');
}

# --- Packages have the pages that README.md links to

my ($in_deb) = slurp_file("$top/debian/rules") =~ /dh_installdocs --all (.*)/;
my ($in_rpm) = slurp_file("$top/rpm/postgresql-snowflake.spec") =~ /^%doc (.*)/m;
for my $page (slurp_file("$top/README.md") =~ /\]\(([A-Z]\w*\.md|doc)(?=[#)\/])/g)
{
	ok($_->[1] =~ /(?:^| )\Q$page\E(?: |$)/, "the $_->[0] has $page") for [ 'Debian package', $in_deb ], [ 'RPM', $in_rpm ];
}

# --- Packages name the same majors: none below what META.json requires

my ($oldest) = $meta->{prereqs}{runtime}{requires}{PostgreSQL} =~ /^(\d+)/;
is((slurp_file("$top/debian/pgversions") =~ /^(\d+)\+$/m)[0], $oldest, 'debian/pgversions begins with the oldest major');

done_testing();
