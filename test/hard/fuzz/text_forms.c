/*-------------------------------------------------------------------------
 *
 * text_forms.c
 *	  Feed src/text_forms.c ids and texts: an id has one text, and what is read
 *	  has been written so.
 *
 * The first byte selects the form, the rest is both an id and a text.  The
 * SQL functions are called as the server calls them, errors and all.
 *
 *-------------------------------------------------------------------------
 */
#include "../../../src/layout.c"
#include "../../../src/text_forms.c"

#define FUZZ_ERRORS
#include "server.h"

static const TextForm *const forms[] = {&base32, &base58, &base62};

/* Call to_text(); the caller frees the result. */
static text *
write_text(const TextForm *form, int64 id)
{
	return DatumGetTextPP(to_text(form, id));
}

/* Call from_text(); false if it throws. */
static bool
read_text(const TextForm *form, text *arg, int64 *id)
{
	if (sigsetjmp(fuzz_error, 0) != 0)
		return false;
	*id = DatumGetInt64(from_text(form, arg));
	return true;
}

/* Writing and reading gives the id, and orders as ids do, unsigned. */
static void
check_id(const TextForm *form, int64 id)
{
	text *here = write_text(form, id);
	text *next = write_text(form, (int64) ((uint64) id + 1));
	int64 back;

	must(VARSIZE_ANY_EXHDR(here) == form_width(form));
	must(read_text(form, here, &back) && back == id);
	must((memcmp(VARDATA_ANY(here), VARDATA_ANY(next), form_width(form)) <
		  0) == ((uint64) id != PG_UINT64_MAX));
	free(here);
	free(next);
}

/* How an id that was read may be spelled, besides the way we write it. */
static char
canonical(const TextForm *form, char digit)
{
	if (form != &base32)
		return digit;
	digit = pg_toupper((unsigned char) digit);
	return digit == 'O' ? '0' : digit == 'I' || digit == 'L' ? '1' : digit;
}

/* What is read is the text that is written, up to such spelling. */
static void
check_text(const TextForm *form, const uint8 *data, size_t size)
{
	text *arg = malloc(VARHDRSZ + size);
	text *written;
	int64 id;

	SET_VARSIZE(arg, VARHDRSZ + size);
	memcpy(VARDATA(arg), data, size);
	if (read_text(form, arg, &id))
	{
		must(size == form_width(form));
		written = write_text(form, id);
		for (size_t i = 0; i < size; i++)
			must(VARDATA_ANY(written)[i] == canonical(form, data[i]));
		free(written);
	}
	free(arg);
}

int
LLVMFuzzerTestOneInput(const uint8 *data, size_t size)
{
	const TextForm *form;
	int64			id = 0;

	if (size == 0)
		return -1;
	form = forms[data[0] % lengthof(forms)];
	data++;
	size--;
	memcpy(&id, data, Min(size, sizeof(id)));
	check_id(form, id);
	check_text(form, data, size);
	return 0;
}
